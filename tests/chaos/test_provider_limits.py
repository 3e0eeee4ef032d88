"""Providers with limits of their own, answers that cannot be used, accounts without quota: every file is indexed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.chaos.full import only_in_full
from tests.fakes.embeddings import EmbeddingsFake, Limits, sha
from tests.service import NewService, Service, eventually

#: Refused requests that teach a fleet of some processes what a provider takes, and those with which it tries for more.
FEW = 24


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingsFake]:
    with EmbeddingsFake() as fake:
        yield fake


@pytest.fixture
def provider(running: EmbeddingsFake) -> Iterator[EmbeddingsFake]:
    running.reset()
    yield running
    running.reset()


@pytest.fixture(scope="module")
def here(new_service: NewService, root: Path, running: EmbeddingsFake) -> Iterator[Service]:
    with new_service(**running.env, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


def write(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text)
    return folder


def new_tool(here: Service, folder: Path, **config: Any) -> str:
    """A tool with a model of its own: what the fleet learns of others does not count."""
    return here.local_tool(folder, config={"embedding_model": f"openai/{uuid4().hex}", **config})


def refusals(provider: EmbeddingsFake) -> list[int]:
    """The numbers of texts of refused requests."""
    return [request.inputs for request in provider.audit.requests if request.status >= 400]


NAMED, UNNAMED = "batch size {texts} > maximum allowed batch size {most}", "Bad Request"
OTHER_LIMITS = [(32, NAMED), (32, UNNAMED), (10, NAMED), (1, UNNAMED)]


@pytest.mark.parametrize(
    ("most", "words"),
    [(10, UNNAMED), (1, NAMED), *(pytest.param(*each, marks=only_in_full) for each in OTHER_LIMITS)],
)
def test_a_server_that_takes_few_texts_indexes_every_file(
    here: Service, provider: EmbeddingsFake, root: Path, most: int, words: str
) -> None:
    provider.limits = Limits(most_texts=most, words=words, status=422 if "batch" in words else 400)
    files = {f"f{number}": f"Text number {number} of {most} in {words}." for number in range(400)}
    status = here.wait(new_tool(here, write(root / uuid4().hex, files)))
    assert (status["indexed_files"], status["failed_files"], status["warning"]) == (400, 0, None)
    assert len(refusals(provider)) <= FEW
    assert {provider.audit.texts[sha(text)] for text in files.values()} == {1}, "no text is paid for twice"
    answered = [request.inputs for request in provider.audit.requests if request.status == 200]
    assert len(answered) <= 400 / most + 80


@only_in_full
def test_one_refusal_teaches_the_next_folder_and_a_limit_that_rises_is_found(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    model = {"embedding_model": f"openai/{uuid4().hex}"}
    provider.limits = Limits(most_texts=1, words="Too many inputs. The max number of inputs is {most}.")
    for number in range(2):
        files = {f"f{each}": f"Lesson {number} and {each}." for each in range(20)}
        here.wait(here.local_tool(write(root / uuid4().hex, files), config=model))
        if number == 0:
            learned = len(refusals(provider))
    assert learned <= 4
    # after some answers a larger request is tried, by each of those in flight
    assert len(refusals(provider)) <= learned + 4
    provider.limits = Limits(most_texts=64)
    files = {f"f{each}": f"After the lesson, {each}." for each in range(400)}
    here.wait(here.local_tool(write(root / uuid4().hex, files), config=model))
    assert max(request.inputs for request in provider.audit.requests if request.status == 200) > 32


@pytest.mark.parametrize(
    "word",
    ["NULL-ME", "HTML-ME", *(pytest.param(word, marks=only_in_full) for word in ("NAN-ME", "EMPTY-ME", "GONE-ME"))],
)
def test_a_text_whose_answer_cannot_be_used_fails_alone(
    here: Service, provider: EmbeddingsFake, root: Path, word: str
) -> None:
    files = {f"f{number}": f"Usable {number} beside {word.lower()}." for number in range(60)} | {"bad": f"A {word}."}
    tool = here.local_tool(write(root / word.lower(), files), config={"embedding_model": "openai/bad-nan"})
    status = here.wait(tool)
    assert (status["indexed_files"], status["failed_files"]) == (60, 1)
    (bad,) = here.files(tool, status="failed")
    assert (bad["file_path"], bad["reason"]) == ("bad.md", "embedding_refused")
    paid = Counter(provider.audit.texts[sha(text)] for text in files.values())
    # an answer that is a page is split in halves, and of all others the usable vectors are kept
    # what is answered after the words were to wait for it is asked once more
    assert max(paid) <= (12 if word == "HTML-ME" else 5)
    assert paid[1] >= (0 if word == "HTML-ME" else 56)


def test_a_server_none_of_whose_answers_can_be_used_is_down(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    files = {f"f{number}": f"Waits for the page to go, {number}." for number in range(60)}
    tool = new_tool(here, write(root / "down", {"first": "The first."}))
    here.wait(tool)
    folder = write(root / "page", files)
    model = {"embedding_model": "openai/breaks"}
    here.wait(here.local_tool(write(root / "whole", {"a": "Whole."}), config=model))
    provider.limits = Limits(is_broken=True)
    tool = here.local_tool(folder, config=model)
    eventually(lambda: here.status(tool)["warning"] is not None, 30, here.logs)
    assert "not readable" in here.status(tool)["warning"]
    provider.limits = Limits()
    status = here.wait(tool, seconds=120)
    assert (status["indexed_files"], status["failed_files"], status["warning"]) == (60, 0, None)


@pytest.mark.parametrize(
    "too_long",
    [
        (400, "This model's maximum context length is 64 tokens."),
        pytest.param((413, "Input validation error: `inputs` must have less than 64 tokens"), marks=only_in_full),
        pytest.param((422, "Input text exceeds maximum length of 64 tokens"), marks=only_in_full),
        (500, "input (128 tokens) is too large to process. increase the physical batch size (current batch size: 64)"),
    ],
)
def test_a_text_beyond_the_context_is_cut_again(
    here: Service, provider: EmbeddingsFake, root: Path, too_long: tuple[int, str]
) -> None:
    provider.limits = Limits(most_tokens=64, too_long=too_long)
    words = [f"word{number}x{too_long[0]}" for number in range(400)]
    files = {f"short{number}": f"Short text {number} of {too_long[0]}." for number in range(40)}
    tool = new_tool(here, write(root / f"long-{too_long[0]}", {**files, "long": " ".join(words)}))
    status = here.wait(tool)
    assert (status["indexed_files"], status["failed_files"]) == (41, 0)
    assert "chunk_size" in status["warning"]
    long = [request.tokens for request in provider.audit.requests if request.status == 200 and request.inputs == 1]
    assert max(long, default=0) <= 64
    for word in (words[0], words[133], words[266], words[-1]):
        hits = here.query(tool, word, mode="keyword")
        assert hits, f"{word} is in a gap"
        assert hits[0]["file_path"] == "long.md"
    placed = here.rows(
        "SELECT c.start_char, c.chunk_text, c.chunk_index FROM chunk c JOIN search_index_file f ON f.id = c.file_id "
        "JOIN search_tool t ON t.index_id = f.index_id WHERE t.id = %s AND f.path = 'long.md' ORDER BY c.chunk_index",
        tool,
    )
    assert [index for *_, index in placed] == list(range(len(placed)))
    read = [" "] * len(" ".join(words))
    for start, text, _ in placed:
        read[start : start + len(text)] = text
    assert "".join(read) == " ".join(words)
    assert {times for text, times in provider.audit.texts.items() if times} == {1}


@only_in_full
def test_an_account_without_quota_is_told_at_once_and_tried_with_one_text(
    here: Service, provider: EmbeddingsFake, root: Path
) -> None:
    provider.limits = Limits(has_quota=False)
    files = {f"f{number}": f"Waits for credit, {number}." for number in range(100)}
    model = {"embedding_model": "openai/without-quota"}
    provider.limits = Limits()
    here.wait(here.local_tool(write(root / "paid", {"a": "With credit."}), config=model))
    provider.limits = Limits(has_quota=False)
    before = len(provider.audit.requests)
    tool = here.local_tool(write(root / "unpaid", files), config=model)
    eventually(lambda: here.status(tool)["warning"] is not None, 10, here.logs)
    assert "quota" in here.status(tool)["warning"]
    eventually(lambda: len(provider.audit.requests) - before >= 2, 60, here.logs)
    first, *others = provider.audit.requests[before:]
    assert [request.at - first.at > 25 for request in others[:1]] == [True]
    assert provider.audit.requests[-1].status == 429
    provider.limits = Limits()
    status = here.wait(tool, seconds=90)
    assert (status["indexed_files"], status["failed_files"], status["warning"]) == (100, 0, None)
