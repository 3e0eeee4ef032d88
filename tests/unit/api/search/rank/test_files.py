"""What the other chunks of a file do to a chunk's score."""

from __future__ import annotations

import pytest

from api.search.rank.files import CROWDED_HITS, SUPPORTING_CHUNKS, FoundChunk, crowding, file_parts

WEIGHTS = {"coherence": 0.8, "repeat": -0.5}


def values(*chunks: tuple[str, float], by_file: bool = True) -> list[float]:
    found = [FoundChunk(file, by_file, score) for file, score in chunks]
    return [value for _, value in file_parts(found, WEIGHTS)]


def test_the_best_chunk_of_a_file_is_raised_by_the_next_and_those_sink() -> None:
    parts = file_parts([FoundChunk("a", True, 0.8), FoundChunk("b", True, 0.6), FoundChunk("a", True, 0.4)], WEIGHTS)
    assert parts == [
        ("coherence", pytest.approx(0.8 * 0.4 / SUPPORTING_CHUNKS)),
        ("coherence", 0),
        ("repeat", pytest.approx(-0.2)),
    ]


def test_each_further_chunk_of_a_file_loses_the_same_share() -> None:
    assert values(("a", 0.8), ("a", 0.8), ("a", 0.4), ("a", 0.4))[1:] == pytest.approx([-0.4, -0.2, -0.2])


def test_only_the_first_few_chunks_support_a_file() -> None:
    few = [("a", 0.5)] * (1 + SUPPORTING_CHUNKS)
    assert values(*few)[0] == values(*few, ("a", 0.5))[0] == pytest.approx(0.8 * 0.5)
    assert values(*few[1:])[0] < values(*few)[0]


def test_what_counts_against_a_chunk_does_not_count_against_its_file() -> None:
    assert values(("a", 0.5), ("a", -0.1)) == [0, 0]


def test_chunks_of_prose_stand_by_themselves() -> None:
    assert values(("a", 0.8), ("a", 0.4), by_file=False) == [0, 0]


@pytest.mark.parametrize("by_file", [True, False])
def test_behind_the_first_hits_further_chunks_of_a_file_crowd_out_others(by_file: bool) -> None:
    files = "a" * CROWDED_HITS + "abcba"
    found = [FoundChunk(file, by_file, 0.9 - number / 10) for number, file in enumerate(files)]
    crowded = crowding(found)
    assert [bool(each) for each in crowded] == [by_file and each == "1" for each in "0" * CROWDED_HITS + "10010"]
    assert crowded[CROWDED_HITS] == found[CROWDED_HITS].score * by_file


def test_the_fewer_chunks_are_parts_of_a_file_the_less_it_gains_by_them() -> None:
    long = [FoundChunk("long", True, 0.5), FoundChunk("long", True, 0.4)]
    short = [FoundChunk(name, True, 0.45, is_part=False) for name in "abcdef"]
    prose = [FoundChunk(name, False, 0.4, is_part=False) for name in "xyz"]
    alone, among = (file_parts([*long, *others], WEIGHTS)[0][1] for others in ([], short))
    assert among == pytest.approx(alone / 4)
    assert file_parts([*long, *prose], WEIGHTS)[0][1] == alone
    assert file_parts(short, WEIGHTS) == [("coherence", 0)] * len(short)
