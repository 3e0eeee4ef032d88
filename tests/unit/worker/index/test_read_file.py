"""What becomes of one claimed file: read or not, cut anew or not, and what its row tells of it in each case."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.content.document import FileContent, text_hash
from schemas.errors import StoreError
from schemas.reason import Reason
from tests.unit.worker.index.test_prepare import claim, failure_of, run_over
from worker import parse
from worker.index.file_states import FailedFile, File, PreparedFile, RemovedFile, UnchangedFile
from worker.index.prepare import MAX_ERROR, read_file, read_files
from worker.index.run import IndexRun
from worker.sandbox.members import TOO_MUCH
from worker.state.index.files import FileClaim
from worker.tokens.languages import NONE

#: A trusted time of a file.
LONG_AGO = 1_000_000_000
TEXT = "# Tides\n\nThe water rises twice a day.\n"


def written(folder: Path, name: str, content: str = TEXT) -> FileClaim:
    """A file that is old enough for its stamp to be trusted."""
    (folder / name).write_text(content)
    os.utime(folder / name, (LONG_AGO, LONG_AGO))
    return replace(claim(name), stamp="listed")


def indexed(run: IndexRun, first: FileClaim) -> FileClaim:
    """The claim of a file that was indexed before."""
    facts = prepared(read_file(run, first)).facts
    known: dict[str, Any] = {
        "live_fingerprint": facts.fingerprint,
        "live_path": first.path,
        "live_id_path": first.id_path,
    }
    return replace(first, **known, live_chunks=1, type=facts.type)


def prepared(file: File) -> PreparedFile:
    assert isinstance(file, PreparedFile), file
    return file


def keeping(run: IndexRun, *kinds: str) -> IndexRun:
    settings = run.index.settings.model_copy(update={"keep": kinds})
    return replace(run, index=replace(run.index, settings=settings))


# --- files whose content is not read


def test_a_removed_file_is_not_read(tmp_path: Path) -> None:
    assert isinstance(read_file(run_over(tmp_path), replace(claim("a.md"), work="remove")), RemovedFile)


@pytest.mark.parametrize("language", ["de", NONE])
def test_a_moved_file_is_not_read_and_keeps_what_is_known_of_it(tmp_path: Path, language: str) -> None:
    moved = replace(
        claim("new.md"),
        work="path",
        type="markdown",
        live_path="old.md",
        live_fingerprint="f",
        words_language=language,
        properties={"title": "Gezeiten"},
        note="half",
    )
    file = read_file(run_over(tmp_path), moved)
    assert isinstance(file, UnchangedFile)
    facts = file.facts
    assert (facts.type, facts.stamp, facts.fingerprint) == ("markdown", moved.stamp, "f")
    assert (facts.words_language, facts.properties.title, facts.note) == (language, "Gezeiten", "half")


@pytest.mark.parametrize("live_path", ["old.txt", "old.py"])
def test_a_file_whose_new_name_means_another_format_is_read(tmp_path: Path, live_path: str) -> None:
    moved = replace(written(tmp_path, "new.md"), work="path", live_path=live_path, live_fingerprint="f")
    assert prepared(read_file(run_over(tmp_path), moved)).facts.type == "markdown"


def test_a_moved_file_that_was_never_indexed_under_a_name_is_not_read(tmp_path: Path) -> None:
    assert isinstance(read_file(run_over(tmp_path), replace(claim("new.md"), work="path")), UnchangedFile)


@pytest.mark.parametrize(("size", "message"), [(2_000_001, "MAX_FILE_BYTES (2,000,000)"), (2_000_000, TOO_MUCH)])
def test_what_is_too_large_is_told_by_its_own_limit(tmp_path: Path, size: int, message: str) -> None:
    assert message in failure_of(read_file(run_over(tmp_path), claim("a.zip", size, Reason.TOO_LARGE))).message


def test_a_reason_of_the_listing_is_told_with_what_the_name_tells(tmp_path: Path) -> None:
    refusal = parse.refusal("a.mp4")
    assert refusal is not None
    by_name = failure_of(read_file(run_over(tmp_path), claim("a.mp4", reason=refusal.reason)))
    assert by_name.message == refusal.message
    other = failure_of(read_file(run_over(tmp_path), claim("a.mp4", reason=Reason.UNREADABLE)))
    assert (other.reason, other.message) == (Reason.UNREADABLE, Reason.UNREADABLE.remedy)


# --- content


def test_content_that_is_live_is_not_cut_again_unless_all_is_or_its_format_is_another(tmp_path: Path) -> None:
    run = run_over(tmp_path)
    again = replace(indexed(run, written(tmp_path, "a.md")), note="half", words_language="de")
    file = read_file(run, again)
    assert isinstance(file, UnchangedFile)
    assert (file.facts.words_language, file.facts.note, file.facts.fingerprint) == (
        "de",
        "half",
        again.live_fingerprint,
    )
    assert file.facts.stamp not in {"", "listed"}
    others: list[dict[str, Any]] = [{"work": "full"}, {"live_path": "a.txt"}, {"code_version": "markdown-0"}]
    for changed in others:
        prepared(read_file(run, replace(again, **changed)))
    written(tmp_path, "a.md", TEXT + "More.\n")
    prepared(read_file(run, again))


def with_stems(run: IndexRun) -> IndexRun:
    return replace(run, index=replace(run.index, settings=run.index.settings.model_copy(update={"file_stems": True})))


CODE = "def tide():\n    return 1\n"


@pytest.mark.parametrize(
    ("before", "after", "is_read"),
    [
        ("tide.py", "moon.py", True),
        ("tide.py", "far/away/tide.py", False),
        ("sea/__init__.py", "moon/__init__.py", True),
        ("sea/__init__.py", "far/sea/__init__.py", False),
        ("sea/tide.py", "moon/tide.py", False),
        ("tide", "moon", False),
        ("tide.md", "moon.md", False),
    ],
)
@pytest.mark.parametrize("work", ["path", "read"])
def test_a_file_is_cut_again_if_a_new_name_is_embedded_with_it(
    tmp_path: Path, before: str, after: str, *, is_read: bool, work: str
) -> None:
    for path in (before, after):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        written(tmp_path, path, CODE if path.endswith(".py") else TEXT)
    older = run_over(tmp_path)
    for run, is_cut in ((with_stems(older), is_read), (older, False)):
        live = indexed(run, replace(claim(before), stamp="listed"))
        moved = replace(live, path=after, key=after.encode(), work=work)
        assert isinstance(read_file(run, moved), PreparedFile if is_cut else UnchangedFile)


def test_only_code_and_only_of_an_index_that_does_so_is_embedded_with_its_stem(tmp_path: Path) -> None:
    run = run_over(tmp_path)
    code, prose = written(tmp_path, "tide.py", CODE), written(tmp_path, "moon.md")
    for each, stem in ((run, ""), (with_stems(run), "tide")):
        assert [chunk.chunk.stem for chunk in prepared(read_file(each, code)).chunks] == [stem]
        assert [chunk.chunk.stem for chunk in prepared(read_file(each, prose)).chunks] == [""]
    (old,), (new,) = (prepared(read_file(each, code)).chunks for each in (run, with_stems(run)))
    assert (new.chunk.text, new.chunk.context) == (old.chunk.text, old.chunk.context)
    assert new.content_hash == text_hash(f"tide\n\n{CODE.strip()}") != old.content_hash
    assert new.chunk.tokens > old.chunk.tokens


def test_a_file_that_was_just_changed_has_no_stamp_to_trust(tmp_path: Path) -> None:
    first = written(tmp_path, "a.md")
    (tmp_path / "a.md").write_text(TEXT)
    assert prepared(read_file(run_over(tmp_path), first)).facts.stamp == ""


def test_a_failed_file_has_the_stamp_under_which_it_was_read(tmp_path: Path) -> None:
    run = run_over(tmp_path)
    blank = read_file(run, written(tmp_path, "blank.md", " \n \n"))
    assert isinstance(blank, FailedFile)
    assert blank.failure.reason is Reason.NO_TEXT
    assert blank.facts.stamp not in {"", "listed", None}
    # nothing was read of it
    gone = read_file(run, replace(claim("gone.md"), stamp="listed"))
    assert isinstance(gone, FailedFile)
    assert (gone.failure.reason, gone.facts.stamp) == (Reason.UNREADABLE, "listed")


def test_a_process_that_dies_while_it_reads_has_its_file_to_blame(tmp_path: Path) -> None:
    class Watching:
        def read(self, key: bytes, limit: int, listed: str, /) -> FileContent:
            assert run.lease._parsing_since is not None
            return FileContent(b"text", "s")

    source: Any = Watching()
    run = replace(run_over(tmp_path), source=source)
    for file in read_files(run, [claim("a.txt"), claim("b.txt")]):
        prepared(file)
    assert run.lease._parsing_since is None


def test_members_of_a_container_are_read_one_after_the_other(tmp_path: Path) -> None:
    read: list[bytes] = []

    class Noting:
        def read(self, key: bytes, limit: int, listed: str, /) -> FileContent:
            read.append(key)
            return FileContent(b"text", listed)

    source: Any = Noting()
    claims = [claim(f"{container}.zip/{number}.txt") for number in range(3) for container in "ba"]
    read_files(replace(run_over(tmp_path), source=source), claims)
    assert [key[:1] for key in read] == [b"a"] * 3 + [b"b"] * 3


def test_a_later_epoch_never_writes_the_ids_of_an_earlier_one(tmp_path: Path) -> None:
    first, run = written(tmp_path, "a.md"), run_over(tmp_path)
    earlier, later = (prepared(read_file(replace(run, epoch=epoch), first)) for epoch in (1, 2))
    assert {chunk.id for chunk in earlier.chunks}.isdisjoint(chunk.id for chunk in later.chunks)


def test_the_type_that_a_source_states_decides_how_a_file_is_read(tmp_path: Path) -> None:
    class Stating:
        def read(self, key: bytes, limit: int, listed: str, /) -> FileContent:
            return FileContent(b'{"a": 1}', "s", type="json")

    source: Any = Stating()
    assert prepared(read_file(replace(run_over(tmp_path), source=source), claim("notes"))).facts.type == "json"


def test_the_language_of_code_is_not_taken_for_that_of_its_words(tmp_path: Path) -> None:
    german = "Das Wasser steigt zweimal am Tag, und die Schiffe warten vor dem Hafen auf die Flut. " * 5
    run = run_over(tmp_path)
    text = prepared(read_file(run, written(tmp_path, "a.md", german)))
    code = prepared(read_file(run, written(tmp_path, "a.py", f'"""{german}"""\n\ndef tide():\n    return 1\n')))
    assert (text.facts.words_language, text.facts.language) == ("de", None)
    assert (code.facts.words_language, code.facts.language) == ("en", "python")
    assert {chunk.language for chunk in code.chunks} == {"python"}


def test_what_a_file_is_by_its_content_is_recorded_even_if_it_fails(tmp_path: Path) -> None:
    half = read_file(run_over(tmp_path), written(tmp_path, "half.json", '{"pears": "cut o'))
    assert "line 1, column 11" in (prepared(half).facts.note or "")
    generated = read_file(run_over(tmp_path), written(tmp_path, "a.py", "# Code generated by x. DO NOT EDIT.\nx = 1\n"))
    assert isinstance(generated, FailedFile)
    assert (generated.failure.reason, generated.facts.language) == (Reason.GENERATED, "python")


def test_kinds_that_a_tool_keeps_are_read(tmp_path: Path) -> None:
    generated = written(tmp_path, "a.py", "# Code generated by x. DO NOT EDIT.\nx = 1\n")
    with_nul = written(tmp_path, "a.txt", "some words\0 and more\n")
    run = run_over(tmp_path)
    for file, kind, reason in ((generated, "generated", Reason.GENERATED), (with_nul, "binaries", Reason.BINARY)):
        assert failure_of(read_file(run, file)).reason is reason
        prepared(read_file(keeping(run, kind), file))


# --- errors


@pytest.mark.parametrize("length", [MAX_ERROR, 10_000])
def test_an_error_of_a_parser_fails_its_file_and_is_quoted_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("x" * length)

    monkeypatch.setattr(parse, "parse", broken)
    failure = failure_of(read_file(run_over(tmp_path), written(tmp_path, "a.md")))
    assert failure.reason is Reason.PARSE_FAILED
    assert failure.message.startswith("ZeroDivisionError while reading: xxx")
    assert len(failure.message) == MAX_ERROR


def test_an_error_that_is_not_the_files_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("not this file's")

    monkeypatch.setattr(parse, "parse", broken)
    with pytest.raises(StoreError):
        read_file(run_over(tmp_path), written(tmp_path, "a.md"))


# --- chunks


def test_more_chunks_than_fit_in_memory_with_their_vectors_are_too_large(tmp_path: Path) -> None:
    sections = "".join(f"# Part {number}\n\nWords of {number}.\n\n" for number in range(900))
    first = written(tmp_path, "a.md", sections)
    run = run_over(tmp_path, parse.Limits(memory_bytes=1 << 20))
    assert len(prepared(read_file(run, first)).chunks) == 900
    embedder = run.index.settings.embedder.model_copy(update={"dimensions": 1024})
    settings = run.index.settings.model_copy(update={"embedder": embedder})
    large = replace(run, index=replace(run.index, settings=settings))
    assert failure_of(read_file(large, first)).reason is Reason.TOO_LARGE


@pytest.mark.parametrize(("most", "embedded"), [(2, False), (1_000, True)])
def test_a_file_beyond_the_bounds_of_tokens_has_no_vectors(tmp_path: Path, most: int, embedded: bool) -> None:
    run = run_over(tmp_path)
    settings = run.index.settings.model_copy(update={"max_token_count": most})
    bounded = replace(run, index=replace(run.index, settings=settings))
    file = prepared(read_file(bounded, written(tmp_path, "a.md")))
    assert file.embedded is embedded
    assert {chunk.embedded for chunk in file.chunks} == {embedded}
