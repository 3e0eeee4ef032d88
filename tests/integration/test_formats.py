"""A folder of every format goes through real workers: each file has its outcome, and hits have their page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.reason import Reason
from tests.contract.samples import SAMPLES, expected
from tests.service import NewService, Service
from worker.formats import unsupported
from worker.settings import LOCAL_MODEL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("folder")
    for sample in SAMPLES:
        shutil.copy(sample, made / sample.name)
    shutil.copy(made / "tides.pdf", made / "lies.txt")
    (made / "half.pdf").write_bytes((made / "tides.pdf").read_bytes()[:300])
    return made


@pytest.fixture(scope="module")
def running(new_service: NewService, folder: Path) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "LOCAL_SOURCE_ROOTS": str(folder), "VECTOR_STORE": "lancedb"}
    with new_service(**env) as started:
        yield started


def wanted(sample: Path) -> set[tuple[str, str | None]]:
    """The outcomes that a sample may have on this machine."""
    reason = expected(sample)[0].get("reason")
    if sample.suffix == ".doc" and not unsupported.programs(("catdoc", "antiword", "soffice", "libreoffice")):
        return {("skipped", Reason.UNSUPPORTED_TYPE)}
    if reason == Reason.NEEDS_OCR and unsupported.programs(("tesseract",)):
        # its version and its languages decide whether it finds words
        return {("indexed", None), ("skipped", Reason.NO_TEXT)}
    return {("skipped", str(reason)) if reason else ("indexed", None)}


def test_every_file_is_understood_or_says_why_not(running: Service, folder: Path) -> None:
    tool = running.local_tool(folder)
    running.wait(tool)
    files = {file["file_path"]: file for file in running.files(tool)}
    outcomes = {path: (file["status"], file["reason"]) for path, file in files.items()}
    assert outcomes.pop("lies.txt") == ("indexed", None)
    assert outcomes.pop("half.pdf") == ("failed", "parse_failed")
    assert outcomes.keys() == {sample.name for sample in SAMPLES}
    assert {
        sample.name: outcomes[sample.name] for sample in SAMPLES if outcomes[sample.name] not in wanted(sample)
    } == {}
    assert all(file["message"] for file in files.values() if file["status"] != "indexed")
    assert (files["lies.txt"]["file_type"], files["catches.xlsx"]["file_type"]) == ("pdf", "xlsx")
    hits = running.query(tool, "keeper Ada Brandt", mode="keyword")
    assert {hit["page"] for hit in hits if hit["file_path"] == "tides.pdf"} == {1}
    (slides,) = [
        hit for hit in running.query(tool, "bolts paint price", mode="keyword") if "| Paint" in hit["chunk_text"]
    ]
    assert (slides["file_path"], slides["page"]) == ("lighthouse.pptx", 3)
