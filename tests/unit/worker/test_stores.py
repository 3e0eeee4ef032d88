"""A vector store is known by its row in `worker.stores`: a further row takes part everywhere."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import cast

import pytest

from schemas.errors import Invalid
from worker.machine.privacy import close_home
from worker.resources import Resources, preload, preload_store, store_name
from worker.settings import LOCAL_MODEL, Settings
from worker.stores import STORES, StoreKind, StoreOptions, default_store, store_directories
from worker.vectors import VectorStore


class Shelf:
    """A store of which these tests need only how it was opened."""

    def __init__(self, options: StoreOptions, has_keywords: bool) -> None:
        self.options, self.has_keywords = options, has_keywords
        shelves.append(self)


#: The stores that were opened, which `Resources` wraps.
shelves: list[Shelf] = []


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The store "shelf" has a row; what was imported for it."""
    steps: list[str] = []
    row = StoreKind(
        open=lambda options, has_keywords, _key: cast(VectorStore, Shelf(options, has_keywords)),
        is_configured=lambda options: options.turbopuffer_region == "shelf",
        most_chunks=lambda _: 1,
        warning="",
        import_client=lambda: steps.append("client"),
        import_before_fork=lambda: steps.append("before fork"),
        directory="shelf",
    )
    monkeypatch.setitem(STORES, "shelf", row)
    return steps


def chosen(**given: object) -> Settings:
    return Settings(vector_store="shelf", default_embedding_model=LOCAL_MODEL, **given)


def test_a_store_without_a_row_is_refused() -> None:
    with pytest.raises(Invalid, match="'turbopuffer' or 'lancedb'"):
        chosen()


def test_indexes_are_in_the_named_store(imported: list[str]) -> None:
    assert store_name(chosen()) == "shelf"


def test_the_first_row_with_all_its_settings_is_the_default(
    imported: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Settings(turbopuffer_region="shelf").values(StoreOptions)
    assert default_store(options) == "lancedb"
    monkeypatch.delitem(STORES, "lancedb")
    assert default_store(options) == "shelf"


def test_it_is_opened_once_from_the_settings(imported: list[str], tmp_path: Path) -> None:
    resources = Resources(chosen(foldex_home=tmp_path))
    opened = resources.store("shelf", "store")
    assert opened.has_keywords
    assert shelves[-1].options.foldex_home == tmp_path
    assert resources.store("shelf", "store") is opened
    assert resources.store("shelf", "postgres") is not opened


def test_it_says_what_processes_import(imported: list[str]) -> None:
    preload_store(chosen())
    assert imported == ["client"]
    preload(chosen())
    assert imported == ["client", "client", "before fork"]


def test_its_directory_belongs_to_the_installation(imported: list[str], tmp_path: Path) -> None:
    (tmp_path / "shelf").mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    close_home(tmp_path, store_directories())
    assert stat.S_IMODE((tmp_path / "shelf").stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) & 0o066 == 0
