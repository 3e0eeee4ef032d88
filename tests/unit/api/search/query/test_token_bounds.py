"""Token bounds: inclusive, counted once, and no reason to rebuild older indexes."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from api.search.chunks.unembedded import _AnswerRoom, _fitting, best_scores
from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings
from tests.hit_rows import hit_row
from worker.state.index.tools import NewIndex
from worker.tokens.tokenizers import characters, cl100k, counted
from worker.vectors import RankedRow

PROFILE = EmbedderProfile(model="openai/m", dimensions=384)
#: The hash of `wanted()` before there were bounds.
IDENTITY = "b2283a7ad995b5fec9c67606f22b1c2303b909494eae69ecd97a886e1e57263f"


def settings(low: int = 0, high: int | None = None) -> IndexSettings:
    return IndexSettings(
        embedder=PROFILE,
        chunks=ChunkSettings(unit="tokens", size=512, overlap=64),
        include=("*.md",),
        max_file_bytes=50_000_000,
        min_token_count=low,
        max_token_count=high,
    )


def wanted(low: int = 0, high: int | None = None) -> NewIndex:
    source = LocalSource(kind="local", path="/srv/docs")
    return NewIndex("project-1", source, "h.1", settings(low, high), "lancedb", "store")


@pytest.mark.parametrize(
    ("low", "high", "embedded"),
    [
        (0, None, [0, 1, 9, 10, 11, 10**9]),
        (10, None, [10, 11, 10**9]),
        (0, 10, [0, 1, 9, 10]),
        (10, 10, [10]),
        (0, 0, [0]),
    ],
)
def test_both_bounds_are_inclusive(low: int, high: int | None, embedded: list[int]) -> None:
    assert [count for count in (0, 1, 9, 10, 11, 10**9) if settings(low, high).embeds(count)] == embedded
    assert settings(low, high).bounded is (low > 0 or high is not None)


def test_an_index_without_bounds_is_the_one_it_was_before_there_were_any() -> None:
    assert wanted().identity == IDENTITY
    packed = replace(wanted(), settings=settings().model_copy(update={"chunks": ChunkSettings(granularity="packed")}))
    stems = replace(wanted(), settings=settings().model_copy(update={"file_stems": True}))
    assert len({IDENTITY, wanted(1).identity, packed.identity, stems.identity}) == 4
    assert len({wanted(low, high).identity for low in (0, 1) for high in (None, 0, 1)}) == 6


def test_a_text_is_counted_as_cl100k_splits_it_and_never_split_twice() -> None:
    text = "The tokens of a file, ünïcödé and 日本語 among them.\n" * 40
    tokens, tokenizer = counted(text, cl100k())
    assert tokens == len(cl100k().starts(text))
    assert tokenizer.starts(text) is tokenizer.starts(text)
    assert tokenizer.starts("another text").tolist() == cl100k().starts("another text").tolist()


def test_another_model_cuts_by_its_own_tokens() -> None:
    own = characters()
    tokens, tokenizer = counted("four words of text", own)
    assert (tokens, tokenizer is own) == (4, True)


def test_a_file_scores_as_the_best_of_its_chunks_that_is_not_embedded() -> None:
    a, b, c, d = (str(UUID(int=number)) for number in range(4))
    one, two = UUID(int=11), UUID(int=12)
    rows = {
        a: hit_row(a, file_id=one),
        b: hit_row(b, file_id=two, embedded=False),
        c: hit_row(c, file_id=two, embedded=False),
    }
    found = [RankedRow(a, 8.0), RankedRow(b, 4.0), RankedRow(c, 2.0), RankedRow(d, 1.0)]
    assert best_scores(rows, [found]) == {two: 0.5}
    assert (
        best_scores(rows, [[RankedRow(c, 0.5)], found]) == best_scores(rows, [found, [RankedRow(c, 0.5)]]) == {two: 1.0}
    )
    assert best_scores({}, []) == best_scores({}, [[]]) == {}


@pytest.mark.parametrize(
    ("files", "characters", "sizes", "chosen", "left"),
    [
        (2, 10, [4, 6, 0], [0, 1], (0, 0)),
        (3, 10, [4, 7, 6, 1], [0, 2], (1, 0)),
        (1, 10, [11, 10, 1], [1], (0, 0)),
        (0, 10, [1], [], (0, 10)),
        (5, 0, [1, 0], [1], (4, 0)),
        (2, 10, [], [], (2, 10)),
    ],
)
def test_whole_files_are_taken_as_long_as_they_fit(
    files: int, characters: int, sizes: list[int], chosen: list[int], left: tuple[int, int]
) -> None:
    ids = [UUID(int=number) for number in range(len(sizes))]
    found, rest = _fitting(list(zip(ids, sizes, strict=True)), _AnswerRoom(files, characters))
    assert ([id_.int for id_ in found], rest) == (chosen, left)
