from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.content.source import ChunkSettings, EmbedderProfile, NodesSource
from schemas.errors import Invalid
from schemas.tool import IndexSettings
from worker.settings import Settings
from worker.state.index.tools import MAX_NAMESPACE, TREE, NewIndex, namespace

SETTINGS = IndexSettings(embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1000)
IDS = st.text(min_size=1, max_size=80) | st.text("abc-", min_size=1, max_size=50)


def wanted(project: str, node: str, prefix: str = "", *, folder: bool = True) -> NewIndex:
    source = NodesSource(node_id=node)
    return NewIndex(project, source, node if folder else None, SETTINGS, "lancedb", "store", namespace_prefix=prefix)


@given(
    IDS,
    IDS,
    st.text("aZ9_-", max_size=32),
    st.booleans(),
    st.none() | st.uuids(),
)
def test_a_name_fits_the_store_whatever_it_is_made_of(
    project: str, node: str, prefix: str, folder: bool, suffix: UUID | None
) -> None:
    name = namespace(wanted(project, node, prefix, folder=folder), suffix)
    assert name.startswith(f"{prefix}project_")
    assert len(name + TREE) <= MAX_NAMESPACE
    assert name.isascii()


def test_a_name_is_plain_where_it_can_be() -> None:
    assert namespace(wanted("p", "n")) == "project_p_folder_n"
    assert namespace(wanted("p", "n", "staging-", folder=False)) == "staging-project_p_node_n"


def test_names_of_a_folder_differ_by_index_and_installation() -> None:
    long = wanted("p" * 48, "n" * 48, "x" * 32)
    suffixes = [uuid4() for _ in range(3)]
    assert len({namespace(long, suffix) for suffix in [None, *suffixes]}) == 4
    assert all(namespace(long, suffix).endswith(f"_{suffix}") for suffix in suffixes)


@pytest.mark.parametrize("prefix", ["a" * 33, "a/b", ".new-", "a b"])
def test_a_prefix_that_no_store_takes_is_refused(prefix: str) -> None:
    with pytest.raises(Invalid, match="NAMESPACE_PREFIX"):
        Settings(namespace_prefix=prefix)
