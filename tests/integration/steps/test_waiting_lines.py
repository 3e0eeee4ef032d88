"""Files whose words no run has indexed yet are found by their lines, for as long as any waits."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from api.http.disconnect import Disconnect
from api.http.shares import READING_GREPS
from api.search.grep import ripgrep
from api.search.pipeline import answer_query
from api.search.query import waiting_files
from schemas.errors import FilterMatchesNothing
from schemas.queries.search import Answer, Query
from tests.integration.steps.site import Site
from worker.index.pipeline import index_files
from worker.resources import Resources

#: Files of the folder, and those that are indexed at first.
FILES, FIRST = 40, 4


@pytest.fixture
def begun(resources: Resources) -> Site:
    """A folder of which the smallest files are indexed. Of the others, each has a word of its own."""
    folder = resources.home.parent / uuid4().hex
    (folder / "late").mkdir(parents=True)
    for number in range(FIRST):
        (folder / f"{number}.md").write_text(f"Rain falls on meadow {number}.\n")
    for number in range(FIRST, FILES):
        text = f"# Birds\n\nRain does not stop the quetzal{number}, which sings\nin the forest all day long.\n"
        (folder / "late" / f"{number}.md").write_text(text)
    made = Site(resources, folder)
    made.list_folder()
    run = made.worker()
    index_files(run, made.claim(run, FIRST))
    made.refresh()
    return made


def answered(site: Site, query: str, **asked: Any) -> Answer:
    request = Query.model_validate({"query": query, **asked})
    return answer_query(site.resources, site.tool, site.index, request, disconnect=Disconnect())


def paths(answer: Answer) -> list[str]:
    return [hit.file_path for hit in answer.results]


def codes(answer: Answer) -> list[str]:
    return [note.code for note in answer.notes if note.code != "nothing_fits_well"]


def said(answer: Answer) -> str:
    return next(note.detail for note in answer.notes if note.code == "not_indexed_yet")


@pytest.mark.parametrize("has_program", [True, False])
def test_an_exact_word_of_a_waiting_file_is_the_first_hit_until_it_is_indexed(
    begun: Site, monkeypatch: pytest.MonkeyPatch, has_program: bool
) -> None:
    if not has_program:
        monkeypatch.setattr(ripgrep, "program", lambda: None)
    for number in (FIRST, FILES - 1):
        answer = answered(begun, f"quetzal{number}")
        assert paths(answer)[0] == f"late/{number}.md"
        assert [note.code for note in answer.notes] == ["not_indexed_yet"]
        assert f"{FIRST} of {FILES} files" in said(answer)
        scores = [hit.score for hit in answer.results]
        assert scores == sorted(scores, reverse=True)
    begun.finish_all()
    answer = answered(begun, f"quetzal{FIRST}")
    assert (paths(answer)[0], codes(answer)) == (f"late/{FIRST}.md", [])
    assert answer.results[0].embedded


def test_hits_of_the_index_and_lines_take_turns(begun: Site) -> None:
    found = paths(answered(begun, "rain falls on the meadow and stops", top_k=8))
    assert not found[0].startswith("late/")
    assert [path.startswith("late/") for path in found] == [False, True] * 4
    assert len({*found}) == 8
    assert not paths(answered(begun, "rain falls on the meadow and stops", top_k=1))[0].startswith("late/")


@pytest.mark.parametrize(
    ("filters", "is_found"),
    [
        ({"path": "late/**"}, True),
        ({"path": "late/5.md"}, True),
        ({"path": "!late/"}, False),
        ({"path": "late/{5,6}.md", "types": ["markdown"]}, True),
        ({"types": ["md"]}, True),
        ({"types": ["markdown"], "level": 0}, True),
        ({"types": ["python"]}, False),
        ({"types": ["no such type"]}, False),
        ({"modified_after": "2001-01-01T00:00:00Z"}, True),
        ({"modified_before": "2001-01-01T00:00:00Z"}, False),
        # nothing is known of these before a file is read
        ({"languages": ["python"]}, False),
        ({"level": 1}, False),
        ({"file_ids": ["late/5.md"]}, False),
    ],
)
def test_filters_by_path_type_and_time_apply_to_waiting_files(
    begun: Site, filters: dict[str, Any], is_found: bool
) -> None:
    answer = answered(begun, "quetzal5", filters=filters)
    assert ("late/5.md" in paths(answer), codes(answer)) == (is_found, ["not_indexed_yet"])
    assert all(not path.startswith("late/") for path in paths(answer)) or is_found


def test_filters_that_match_nothing_are_an_error_once_no_file_waits(begun: Site) -> None:
    begun.finish_all()
    with pytest.raises(FilterMatchesNothing):
        answered(begun, "quetzal5", filters={"path": "none/**"})


def test_a_search_by_meaning_says_that_files_wait_and_adds_no_lines(begun: Site) -> None:
    answer = answered(begun, "quetzal5", mode="vector")
    assert not any(path.startswith("late/") for path in paths(answer))
    assert codes(answer) == ["not_indexed_yet"]


def test_nobody_reads_files_for_a_search_once_a_run_has_ended(begun: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    begun.cancel()
    monkeypatch.setattr(waiting_files, "waiting_lines", lambda *_: pytest.fail("read the folder"))
    assert codes(answered(begun, "quetzal5")) == []


def test_a_search_answers_from_the_index_while_others_use_all_room_to_read(
    begun: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(READING_GREPS), "seconds", 0.05, raising=False)
    owner = begun.project
    with READING_GREPS.hold(owner), READING_GREPS.hold(owner), READING_GREPS.hold(owner), READING_GREPS.hold(owner):
        object.__setattr__(READING_GREPS, "seconds", 0.05)
        try:
            answer = answered(begun, "rain meadow")
        finally:
            object.__setattr__(READING_GREPS, "seconds", 3.0)
    assert paths(answer)
    assert all(not path.startswith("late/") for path in paths(answer))
    assert codes(answer) == ["not_indexed_yet"]
    assert "are found once" in said(answer)


def test_edited_files_are_found_by_their_old_words_while_they_wait(begun: Site) -> None:
    begun.finish_all()
    (begun.folder / "0.md").write_text("Snow lies on the meadow.\n")
    (begun.folder / "new.md").write_text("An axolotl swims.\n")
    begun.again()
    assert paths(answered(begun, "axolotl"))[0] == "new.md"
    assert "0.md" in paths(answered(begun, "meadow 0 rain"))
    begun.finish_all()
    assert "new.md" in paths(answered(begun, "axolotl", mode="keyword"))
