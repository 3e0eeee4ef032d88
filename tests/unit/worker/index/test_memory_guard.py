"""The bytes that cutting a text takes are estimated before it is cut, from its tokens, lines, strings and members."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from schemas.content.source import ChunkSettings
from schemas.errors import FileError
from worker.index import memory_guard
from worker.index.memory_guard import GuardedTokenizer
from worker.tokens.byte_tables import Offsets
from worker.tokens.tokenizers import Tokenizer

#: Bytes that the guard counts per token, per position in a long line, per line and per chunk.
TOKEN, LONG, LINE, CHUNK = 12, 36, 48, 900
#: Bytes per comma, container and member of JSON.
COMMA, CONTAINER, MEMBER = 60, 50, 180

#: 80,000 characters in 10,000 short lines.
LINES = "abcdefg\n" * 10_000
ONE_LINE = LINES.replace("\n", " ")


class Pairs:
    """Every two characters are a token."""

    def __init__(self) -> None:
        self.read = 0

    def starts(self, text: str) -> Offsets:
        self.read += len(text)
        return np.arange(0, len(text), 2)


class Words:
    """A token is a word with the blank in front of it, or a line's end."""

    def starts(self, text: str) -> Offsets:
        return np.array([word.start() for word in re.finditer(r" ?[^\s]+|\s", text)], dtype=np.int64)


class Bytes:
    """Each character is three tokens."""

    def __init__(self) -> None:
        self.read = 0

    def starts(self, text: str) -> Offsets:
        self.read += len(text)
        return np.repeat(np.arange(len(text)), 3)


def guarded(
    memory: int, tokenizer: Tokenizer | None = None, markup: str = "lines", **settings: Any
) -> GuardedTokenizer:
    max_tokens = settings.pop("max_tokens", 8192)
    chunks = ChunkSettings(**{"size": 512, "overlap": 0, **settings})
    return GuardedTokenizer(tokenizer or Pairs(), chunks, max_tokens, markup, memory)


def fits(text: str, memory: int, tokenizer: Tokenizer | None = None, **given: Any) -> bool:
    try:
        guarded(memory, tokenizer, **given).starts(text)
    except FileError:
        return False
    return True


def needed(text: str, tokenizer: Tokenizer | None = None, **given: Any) -> int:
    """The least memory with which the text is accepted."""
    low, high = 0, 1 << 26
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(text, middle, tokenizer, **given) else (middle + 1, high)
    return low


def test_a_short_text_is_accepted_whatever_it_takes() -> None:
    assert fits("a" * (memory_guard._UNCHECKED_CHARS - 1), 0)
    assert not fits("a" * memory_guard._UNCHECKED_CHARS, 0)


def test_a_text_takes_its_tokens_its_lines_and_its_chunks() -> None:
    more = needed(LINES * 2) - needed(LINES)
    # the text is held twice
    assert more == 2 * len(LINES) + 40_000 * TOKEN + 10_000 * LINE + (80_000 // 256 - 40_000 // 256) * CHUNK


def test_smaller_chunks_take_more() -> None:
    assert needed(LINES, size=64) - needed(LINES, size=512) == (40_000 // 32 - 40_000 // 256) * CHUNK


def test_a_models_limit_makes_chunks_smaller() -> None:
    assert needed(LINES, max_tokens=200) == needed(LINES, size=150)
    assert needed(LINES, max_tokens=8192) == needed(LINES)


def test_chunks_of_characters_are_counted_in_characters() -> None:
    small, large = (needed(LINES, unit="characters", size=size) for size in (100, 1000))
    assert small - large == (80_000 // 50 - 80_000 // 500) * CHUNK


def test_each_position_in_a_long_line_takes_more() -> None:
    assert needed(ONE_LINE) - needed(LINES) == 40_000 * LONG - 10_000 * LINE


def test_tokens_that_share_a_character_are_one_position() -> None:
    # the text's end counts as a line's end
    assert needed(ONE_LINE, Bytes()) - needed(LINES, Bytes()) == 80_001 * LONG - 10_000 * LINE


@pytest.mark.parametrize(
    ("characters", "settings", "is_long"),
    [
        (2 * 384, {}, False),
        (2 * 386, {}, True),
        (300, {"unit": "characters", "size": 400}, False),
        (301, {"unit": "characters", "size": 400}, True),
    ],
)
def test_a_line_is_long_above_three_quarters_of_a_chunk(
    characters: int, settings: dict[str, Any], is_long: bool
) -> None:
    text = ("a" * (characters - 1) + "\n") * 600
    # as many lines, of which all but the last are empty
    other = "\n" * 600 + "a" * (600 * (characters - 1))
    positions = len(text) // 2 if is_long else 0
    more = needed(other, **settings) - needed(text, **settings)
    assert more == (600 * (characters - 1) // 2 - positions) * LONG


@pytest.mark.parametrize(
    ("text", "commas", "containers", "members"),
    [
        ("[" + "1," * 50_000 + "1]", 50_000, 1, 50_000),
        ("[" + "[1]," * 30_000 + "1]", 30_000, 30_001, 30_000),
        ("[" + f"[{'1,' * 20}1]," * 3_000 + "1]", 63_000, 3_001, 3_001),
    ],
)
def test_json_takes_its_members_and_not_its_line(text: str, commas: int, containers: int, members: int) -> None:
    in_one_line = len(range(0, len(text), 2)) * LONG
    of_json = commas * COMMA + containers * CONTAINER + members * MEMBER
    assert needed(text, markup="json") - needed(text) == of_json - in_one_line


@pytest.mark.parametrize(("characters", "is_long"), [(510, False), (512, True)])
def test_a_json_string_longer_than_a_chunk_takes_more(characters: int, is_long: bool) -> None:
    text = "[" + f'"{"a" * characters}",' * 200 + "1]"
    within = len(range(0, len(text), 2)) * LONG
    of_json = 200 * (COMMA + MEMBER) + CONTAINER
    more = needed(text, markup="json") - needed(text) - of_json
    assert -within == more if not is_long else -200 * 2 * LONG <= more <= 0


def test_a_rejected_file_is_told_its_remedy() -> None:
    for markup, remedy in (("json", "save it as JSON Lines (.jsonl)"), ("lines", "split it")):
        with pytest.raises(FileError, match=re.escape(f"PARSE_MEMORY_MB (1 MB); {remedy}")):
            guarded(1 << 20, markup=markup).starts("[" + "1," * 500_000 + "1]")


def test_chunks_are_bounded_with_their_vectors() -> None:
    guard = guarded(100 * (1000 + 4 * 384))
    guard.check_chunks(100, 384)
    with pytest.raises(FileError):
        guard.check_chunks(101, 384)
    with pytest.raises(FileError):
        guard.check_chunks(100, 385)


def sample_short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What applies to texts of megabytes applies to short ones."""
    monkeypatch.setattr(memory_guard, "_SAMPLED_CHARS", 70_000)
    monkeypatch.setattr(memory_guard, "_SAMPLE_CHARS", 256)
    monkeypatch.setattr(memory_guard, "_WINDOW_CHARS", 5_000)
    monkeypatch.setattr(memory_guard, "_WINDOW_END_CHARS", 500)


@pytest.mark.parametrize(
    "text",
    [LINES, ONE_LINE, "a word and a line\n" * 5_000, f"{'word ' * 999}\n" * 20, f"{'a' * 900} " * 100, "\n" * 80_000],
)
def test_a_text_cut_in_windows_has_the_tokens_of_the_whole(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    sample_short_texts(monkeypatch)
    found = guarded(1 << 30, Words()).starts(text)
    assert found.tolist() == Words().starts(text).tolist()


@pytest.mark.parametrize(
    ("text", "markup"), [(LINES, "lines"), (ONE_LINE, "lines"), ("[" + "1," * 50_000 + "1]", "json")]
)
def test_samples_tell_nearly_what_a_text_takes(monkeypatch: pytest.MonkeyPatch, text: str, markup: str) -> None:
    most = needed(text, markup=markup)
    sample_short_texts(monkeypatch)
    guarded(int(most * 1.02), markup=markup).check(text)
    tokenizer = Pairs()
    short = guarded(int(most * 0.98), tokenizer, markup=markup)
    for reject in (short.check, short.starts):
        with pytest.raises(FileError):
            reject(text)
    # much less than the whole was read
    assert 0 < tokenizer.read <= 2 * 70 * 256


def test_a_text_whose_lines_are_too_many_is_not_read_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    sample_short_texts(monkeypatch)
    tokenizer = Pairs()
    with pytest.raises(FileError):
        guarded(4 << 20, tokenizer).check("\n" * 100_000)
    assert tokenizer.read == 0


def test_a_text_that_its_samples_do_not_show_is_rejected_before_all_of_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample_short_texts(monkeypatch)

    class Hidden(Bytes):
        """Short texts have no tokens."""

        def starts(self, text: str) -> Offsets:
            return super().starts(text) if len(text) > 256 else np.arange(0, dtype=np.int64)

    tokenizer = Hidden()
    bare = 2 * len(LINES) + 10_001 * LINE
    assert not fits(LINES, bare + 1_000, tokenizer)
    assert len(LINES) > tokenizer.read


def test_samples_are_taken_from_all_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    many_tokens, few_tokens = "a " * 500, ("b" * 99 + "\n") * 800
    texts = [many_tokens + few_tokens, few_tokens + many_tokens]
    most = [needed(text, Words()) for text in texts]
    sample_short_texts(monkeypatch)
    for text, memory in zip(texts, most, strict=True):
        guarded(int(memory * 1.1), Words()).check(text)
