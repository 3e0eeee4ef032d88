"""A provider that hangs at its first answer, or later: the words of all files are found while it is asked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

import pytest

from schemas.errors import FoldexError
from tests.integration.steps.lagging import AWAY, PATHS, Late, Provider
from tests.integration.steps.site import FILES, Site, write
from tests.integration.steps.test_learned_pace import asking
from tests.service import eventually
from worker.app import BULK
from worker.embed import Embedder, Vectors, batching
from worker.index import late as lateness
from worker.index import write as written
from worker.index.pipeline import MIN_CLAIM_FILES
from worker.index.run import IndexRun
from worker.tasks.index import elsewhere
from worker.tokens.keywords import Keywords, keywords_of

#: Seconds after which words are found however long a request takes; far more than the bound, for a busy machine.
SOON = 30.0


class Hanging(Provider):
    """A provider that answers all requests at once but one, which hangs until it is `released`; then it may fail."""

    def __init__(self, embedder: Embedder, answers: int) -> None:
        super().__init__(embedder)
        self._answers = answers
        self.hangs, self.released, self.fails = threading.Event(), threading.Event(), False

    def embed(self, texts: Sequence[str]) -> Vectors:
        self._answers -= 1
        if self._answers == -1:
            self.hangs.set()
            assert self.released.wait(120)
            if self.fails:
                raise AWAY
        return super().embed(texts)


@pytest.fixture(autouse=True)
def soon_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words wait for a fraction of their time."""
    for name in ("LATE_SECONDS", "TRY_SECONDS"):
        monkeypatch.setattr(lateness, name, 0.2)
    monkeypatch.setattr(batching, "PATIENCE_SECONDS", 0.2)


@contextmanager
def hanging(
    late: Late, answers: int, *, fails: bool = False, is_known: bool = True
) -> Iterator[tuple[Hanging, IndexRun]]:
    """A slice of another thread that waits for an answer, which it gets at the end."""
    late.provider = provider = Hanging(late.provider._embedder, answers)
    provider.fails = fails
    run = replace(asking(late), write_elsewhere=elsewhere(late.site.resources, BULK))
    if is_known:
        # all that it was asked so far was answered at once
        run.pace.note_answer(1_000_000, 0.001, first=0.001)
    ended: list[BaseException | None] = []

    def work() -> None:
        try:
            late.slice(run)
            ended.append(None)
        except BaseException as error:  # noqa: BLE001 - asserted below
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert provider.hangs.wait(SOON)
        yield provider, run
    finally:
        provider.released.set()
        thread.join(SOON)
    assert len(ended) == 1
    assert ended[0] is None or isinstance(ended[0], FoldexError), ended
    late.site.expire(run)


def add_files(late: Late, number: int) -> set[str]:
    """Add files until there are so many, and list them."""
    for added in range(FILES, number):
        write(late.site.folder, added, f"One more file, {added}, that tells of apples.")
    late.site.cancel()
    late.again()
    return {f"{each}.md" for each in range(number)}


@pytest.mark.parametrize(("answers", "is_known"), [(0, True), (1, True), (2, True), (0, False)])
def test_words_of_all_claims_are_found_while_a_request_hangs_and_each_text_is_paid_once(
    late: Late, answers: int, is_known: bool
) -> None:
    paths = add_files(late, 4 * MIN_CLAIM_FILES)
    with hanging(late, answers, is_known=is_known):
        eventually(lambda: late.by_word("apples") == paths, SOON, lambda: str(len(late.by_word("apples"))))
        # another worker embeds the files that nobody waits for, and no other text
        late.vectors()
        assert late.count()[1] == len(paths)
        held = sum(status == "indexing" for (status,) in late.columns("status"))
        assert 0 < held <= MIN_CLAIM_FILES
    late.end()
    ((paid, chunks),) = late.site.do(
        "SELECT sum(embedded_chunks), sum(live_chunks) FROM search_index_file WHERE index_id = %s", late.index.id
    )
    assert paid == chunks


def test_words_that_are_written_before_their_vectors_come_are_made_once(
    late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()

    def counted(path: str, *given: str) -> Keywords:
        made[path] += 1
        return keywords_of(path, *given)

    monkeypatch.setattr(written, "keywords_of", counted)
    with hanging(late, 0):
        eventually(lambda: late.by_word("apples") == PATHS, SOON)
        assert late.with_vector() == set()
    assert made == dict.fromkeys(PATHS, 1)
    assert (late.by_word("apples"), late.with_vector()) == (PATHS, PATHS)
    late.end()


def test_a_request_that_hangs_and_fails_leaves_the_words(late: Late) -> None:
    with hanging(late, 0, fails=True):
        eventually(lambda: late.by_word("apples") == PATHS, SOON)
    assert late.by_word("apples") == PATHS
    late.end()


def test_an_edited_file_keeps_its_vectors_while_the_words_of_others_are_written(late: Late) -> None:
    late.end()
    write(late.site.folder, 0, "Now about pears.")
    write(late.site.folder, FILES, "A new file about plums.")
    late.again()
    with hanging(late, 0):
        eventually(lambda: late.by_word("plums") == {f"{FILES}.md"}, SOON)
        assert (late.by_word("pears"), late.with_vector()) == (set(), PATHS)
    late.words()
    assert late.by_word("pears") == {"0.md"}
    late.end()


def test_a_file_that_needs_no_vector_waits_for_none_while_a_request_hangs(late: Late) -> None:
    late.end()
    (late.site.folder / "1.md").unlink()
    (late.site.folder / "empty.md").touch()
    # enough texts for requests that are sent before more files are claimed
    write(late.site.folder, 0, "\n\n".join(f"# Part {part}\n\n{'pears and plums ' * 15}{part}" for part in range(80)))
    late.again()
    with hanging(late, 0):
        eventually(lambda: late.with_vector() == PATHS - {"1.md"}, SOON)
        eventually(lambda: [row[0] for row in late.columns("status", "empty.md")] == ["skipped"], SOON)
        assert late.by_word("apples") == PATHS - {"1.md"}
    late.words()
    assert late.by_word("pears") == {"0.md"}
    late.end()


@pytest.fixture
def busy(late: Late) -> Iterator[tuple[Late, Site]]:
    """A folder whose only worker waits for its vectors, and another project's folder, which was listed meanwhile."""
    late.words()
    with hanging(late, 0):
        folder = late.site.resources.home.parent / uuid4().hex
        folder.mkdir()
        write(folder, 0, "Another folder tells of plums.")
        other = Site(late.site.resources, folder)
        other.list_folder()
        yield late, other
    late.end()


@pytest.mark.usefixtures("nobody_else")
def test_words_of_another_project_are_found_while_a_request_for_vectors_hangs(busy: tuple[Late, Site]) -> None:
    _, other = busy
    eventually(lambda: Late(other).by_word("plums") == {"0.md"}, SOON)
    assert other.do("SELECT status, awaits_vectors FROM search_index_file WHERE index_id = %s", other.index.id) == [
        ("pending", True)
    ]


@pytest.mark.usefixtures("nobody_else")
def test_an_edit_of_the_same_folder_is_found_while_a_request_for_vectors_hangs(busy: tuple[Late, Site]) -> None:
    late, _ = busy
    write(late.site.folder, 0, "Now about pears.")
    late.site.cancel()
    late.again()
    eventually(lambda: late.by_word("pears") == {"0.md"}, SOON)


def test_a_cancel_while_a_request_hangs_takes_the_files_back(late: Late) -> None:
    with hanging(late, 0) as (_, run):
        eventually(lambda: late.by_word("apples") == PATHS, SOON)
        late.site.cancel()
        run.lease._lost.set()
        assert late.by_word("apples") == PATHS
    late.again()
    late.end()
