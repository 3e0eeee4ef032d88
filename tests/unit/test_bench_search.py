"""The search benchmark: its measures against values computed by hand, and labels that exist."""

from __future__ import annotations

import ast
import json
import lzma
import tarfile
from math import log2, sqrt
from pathlib import Path

import numpy as np
import pytest

from api.search.chunks.legs import Ranking
from api.search.rank.weights import WEIGHTS
from api.stack.record import ROOT
from schemas.queries.search import Mode, Query
from tests.bench.search import functions
from tests.bench.search.__main__ import home_of_run
from tests.bench.search.definitions import summary, words
from tests.bench.search.folded import folded_sets
from tests.bench.search.granularity import ask_articles, ask_bare, ask_names, fill_articles, fill_bare
from tests.bench.search.indexed import settings_of_run
from tests.bench.search.measures import means, ndcg, ranks, recall, reciprocal_rank
from tests.bench.search.messages import quotable, raised
from tests.bench.search.parts import part
from tests.bench.search.questions import Label, Passage, Question
from tests.bench.search.recorded import Recorded, Recording, ranked
from tests.bench.search.sets import ask_repo
from tests.bench.search.sources import without_docstrings
from tests.bench.search.trees.coverage import coverage, difference, mean
from tests.bench.search.trees.folders import FOLDERS
from tests.bench.search.unanswerable import OFF_TOPIC, unanswerable
from tests.bench.search.variants import calibration_error
from tests.hit_rows import hit_row
from worker.vectors import Ranked, RankedRow

FOUND = [2, None, 4]


def test_a_label_is_found_at_its_first_passage() -> None:
    labels = [Label(path="a.py"), Label(path="b.py", contains="def b"), Label(path="c.py")]
    passages = [Passage("b.py", 1, "b"), Passage("a.py", 1, ""), Passage("a.py", 9, ""), Passage("b.py", 5, "def b()")]
    assert ranks(labels, passages) == [2, 4, None]


@pytest.mark.parametrize("files", [1, 2, 4, 5])
def test_a_part_of_a_folder_has_a_file_that_answers(files: int) -> None:
    ids = [f"{number}" for number in range(10)]
    rows = {id_: hit_row(id_, "x", file_path=f"{int(id_) // 2}.py") for id_ in ids}
    vectors = {id_: np.eye(10, dtype=np.float32)[int(id_)] for id_ in ids}
    legs = [Ranking("q", kind, [RankedRow(id_, 0.5) for id_ in ids]) for kind in ("vector", "text")]
    labels = [Label(path="3.py"), Label(path=""), Label(path="elsewhere.py")]
    asked = [
        Recorded(Question(query="q", kind="q", relevant=(label,)), vectors["7"], legs, frozenset(ids))
        for label in labels
    ]
    found = part(Recording(asked, rows, vectors), files)
    # the last question is answered nowhere, though it should be; all five files are no part
    assert [each.question for each in found.recorded] == [each.question for each in asked[: 2 * (files < 5)]]
    for each in found.recorded:
        kept = [{rows[id_].file_path for id_ in leg.ids} for leg in each.rankings]
        assert kept[0] == kept[1] == {rows[id_].file_path for id_ in each.defining}
        assert len(kept[0]) in {files, max(1, files - 1)}
    for each in found.recorded[:1]:
        assert each.rankings[0].ids[0] == "7"
        assert Ranked.of(each.rankings[0].results).values[0] == pytest.approx(0)


def test_a_passage_answers_one_label_at_most() -> None:
    labels = [Label(path="a.py", contains="one"), Label(path="a.py", contains="two")]
    assert ranks(labels, [Passage("a.py", 1, "one two"), Passage("a.py", 2, "two")]) == [1, 2]


@pytest.mark.parametrize(
    ("first", "last", "fits"),
    [(1, 4, False), (1, 11, True), (12, 13, True), (9, 10, True), (13, 15, False), (14, 30, False)],
)
def test_lines_fit_a_passage_that_shares_half_of_the_shorter(first: int, last: int, fits: bool) -> None:
    place = Label(path="a.txt", lines=(10, 13))
    verses = "\n".join("verse" for _ in range(first, last + 1))
    assert place.fits(Passage("a.txt", first, verses)) is fits
    assert not place.fits(Passage("b.txt", 10, verses))


def test_recall_is_the_share_of_labels_within_the_depth() -> None:
    assert [recall(FOUND, depth) for depth in (1, 2, 4)] == [0, pytest.approx(1 / 3), pytest.approx(2 / 3)]


def test_ndcg_is_the_gain_over_that_of_the_best_order() -> None:
    best = 1 + 1 / log2(3) + 1 / 2
    assert ndcg(FOUND, 10) == pytest.approx((1 / log2(3) + 1 / log2(5)) / best)
    assert ndcg(FOUND, 2) == pytest.approx((1 / log2(3)) / (1 + 1 / log2(3)))
    assert ndcg([1, 2, 3], 10) == pytest.approx(1)
    assert ndcg([None], 10) == 0


def test_the_reciprocal_rank_is_that_of_the_first_label_found() -> None:
    assert [reciprocal_rank(found) for found in (FOUND, [1], [None])] == [0.5, 1, 0]


def test_means_are_over_all_questions() -> None:
    assert means([[1], [None], [11], [2]]) == pytest.approx(
        {
            "recall@5": 0.5,
            "recall@10": 0.5,
            "recall@20": 0.75,
            "nDCG@10": (1 + 1 / log2(3)) / 4,
            "MRR": (1.5 + 1 / 11) / 4,
        }
    )


def test_the_questions_over_this_repository_are_many_and_each_is_asked_once() -> None:
    queries = [question.query for question in ask_repo()]
    assert len(queries) >= 70
    assert len(set(queries)) == len(queries)


@pytest.mark.parametrize("question", ask_repo(), ids=lambda question: question.query)
def test_every_label_is_in_this_repository(question: Question) -> None:
    for label in question.relevant:
        assert label.contains in (ROOT / label.path).read_text(), label


def test_the_questions_for_trees_are_many_and_each_needs_several_places() -> None:
    questions = [question for folder in FOLDERS.values() for question in folder.ask()]
    assert len({question.query for question in questions}) == len(questions) >= 60
    assert len(FOLDERS) == 3
    for question in questions:
        assert len(set(question.relevant)) == len(question.relevant) >= 2, question.query


@pytest.mark.parametrize("name", FOLDERS)
def test_every_place_for_trees_exists_and_proves_its_label(name: str, tmp_path: Path) -> None:
    folder = FOLDERS[name]
    folder.fill(tmp_path / name)
    for question in folder.ask():
        for label in question.relevant:
            text = (tmp_path / name / label.path).read_text()
            if label.lines:
                first, last = label.lines
                assert last <= text.count("\n"), label
                text = "\n".join(text.splitlines()[first - 1 : last])
            assert label.proof in text, (question.query, label)
            assert label.contains in text, (question.query, label)
            assert label.proof or label.contains, (question.query, label)


def test_line_n_of_a_chapter_is_its_verse_n(tmp_path: Path) -> None:
    FOLDERS["gospels"].fill(tmp_path / "gospels")
    chapters = sorted((tmp_path / "gospels").rglob("*.txt"))
    assert len(chapters) == 28 + 16 + 24 + 21
    for chapter in chapters:
        numbers = [line.split()[0] for line in chapter.read_text().splitlines()]
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)], chapter


def test_coverage_is_the_share_of_places_among_ten_passages() -> None:
    question = Question(query="q", kind="k", relevant=(Label(path="a"), Label(path="b"), Label(path="c")))
    passages = [Passage("a", 1, ""), *[Passage("x", 1, "")] * 8, Passage("b", 1, ""), Passage("c", 1, "")]
    assert coverage(question, passages) == pytest.approx(2 / 3)


def test_a_mean_has_its_standard_error_and_a_difference_is_paired() -> None:
    assert tuple(mean([1, 2, 3, 4])) == pytest.approx((2.5, sqrt(5 / 3) / 2))
    assert mean([0.5]) == (0.5, 0)
    assert difference([1, 3], [0, 2]) == (1, 0)


SOURCE = '''"""Module."""

class A:
    """Ünder."""

    def b(self):
        """Two
        lines."""
        return "kept"
'''
BARE = """...

class A:
    ...

    def b(self):
        ...
        return "kept"
"""


def test_docstrings_are_taken_away_and_nothing_else() -> None:
    assert without_docstrings(SOURCE) == BARE


@pytest.mark.parametrize(
    ("name", "parts"), [("TokenBucket", "token bucket"), ("parse_URL2", "parse url 2"), ("HTTPError", "http error")]
)
def test_words_of_an_identifier(name: str, parts: str) -> None:
    assert " ".join(words(name)) == parts


def test_a_docstring_is_asked_by_its_first_sentence_without_marks() -> None:
    assert (
        summary("Give the :class:`~a.Bucket` to\nwhom `it` belongs. Rest.\n\nMore.")
        == "Give the a.Bucket to whom it belongs."
    )


def test_messages_are_read_from_what_is_raised() -> None:
    source = 'raise errors.Full(f"the bucket {name!r}\\n  is full")\nraise Empty("empty: %s" % name)\nraise Odd(name)'
    assert list(raised(source)) == [("Full", "the bucket %s is full"), ("Empty", "empty: %s"), ("Odd", "")]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ('the %s says "no" to all of it', "says no to all"),
        ("{name!r} is in the way", "is in the way"),
        ("%s is empty", ""),
        ("", ""),
    ],
)
def test_a_question_quotes_words_of_a_message_that_any_value_leaves(message: str, words: str) -> None:
    assert quotable(message) == words


def test_scores_that_are_chances_have_no_calibration_error() -> None:
    assert calibration_error([(0.75, True), (0.75, True), (0.75, True), (0.75, False)]) == 0
    assert calibration_error([(0.9, False), (0.1, True)]) == pytest.approx(0.9)
    assert calibration_error([(1.0, True), (0.0, False)]) == 0


def test_a_repository_is_unpacked_and_every_file_that_answers_counts(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    with tarfile.open(tmp_path / "code" / "one.tar.xz", "w:xz") as archive:
        for name in ("a.py", "b.py"):
            (tmp_path / name).write_text(name)
            archive.add(tmp_path / name, name)
    asked = [{"query": "q", "relevant": ["a.py"], "secondary": ["b.py", "a.py"], "category": "symbol"}]
    (tmp_path / "code" / "one.questions.json").write_text(json.dumps(asked))
    one = folded_sets(tmp_path)["code"]["one"]
    one.fill(tmp_path / "filled")
    assert sorted(path.name for path in (tmp_path / "filled").iterdir()) == ["a.py", "b.py"]
    assert one.ask() == [Question(query="q", kind="symbol", relevant=(Label(path="a.py"), Label(path="b.py")))]


def test_a_paragraph_is_a_file_and_answers_its_own_questions(tmp_path: Path) -> None:
    (tmp_path / "xquad").mkdir()
    paragraphs = [{"context": text, "qas": [{"question": f"which {text}?"}]} for text in ("water", "fire")]
    data = json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}).encode()
    (tmp_path / "xquad" / "xquad.en.json.xz").write_bytes(lzma.compress(data))
    english = folded_sets(tmp_path)["xquad"]["en"]
    english.fill(tmp_path / "filled")
    for question, text in zip(english.ask(), ("water", "fire"), strict=True):
        assert question.query == f"which {text}?"
        assert (tmp_path / "filled" / question.relevant[0].path).read_text() == text


def test_an_article_is_a_file_and_a_chunk_answers_with_the_words_around_its_answer(tmp_path: Path) -> None:
    (tmp_path / "xquad").mkdir()
    start, answer = 50, "in 1984"
    text = f"{'left ' * 10}{answer}{' right' * 10}"
    asked = {"question": "when?", "answers": [{"text": answer, "answer_start": start}]}
    paragraphs = [{"context": "Also in 1984.", "qas": []}, {"context": text, "qas": [asked]}]
    data = json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}).encode()
    (tmp_path / "xquad" / "xquad.en.json.xz").write_bytes(lzma.compress(data))
    english = folded_sets(tmp_path)["articles"]["en"]
    english.fill(tmp_path / "filled")
    assert (tmp_path / "filled" / "00.txt").read_text() == f"Also in 1984.\n\n{text}\n"
    (question,) = english.ask()
    assert [
        label.fits(Passage("00.txt", 1, shown)) for label in question.relevant for shown in ("Also in 1984.", text)
    ] == [
        False,
        True,
    ]


def test_a_function_is_a_file_without_the_sentence_that_asks_for_it(tmp_path: Path) -> None:
    functions.fill(tmp_path / "filled")
    questions = functions.ask()
    assert len({question.query for question in questions}) == len(questions) >= 400
    for question in questions:
        text = (tmp_path / "filled" / question.relevant[0].path).read_text()
        assert isinstance(ast.parse(text).body[0], ast.FunctionDef)
        sentence = question.query.removeprefix("python ").removeprefix("how to ").removesuffix(" in python")
        assert sentence not in " ".join(text.lower().split()), question.query


def test_questions_without_an_answer_are_those_of_the_next_fold_and_of_other_things() -> None:
    one, two = (Question(query=name, kind="k", relevant=(Label(path="a"),)) for name in ("one", "two"))
    symbol = Question(query="main", kind="symbol", relevant=(Label(path="a"),))
    asked = unanswerable({"one": [one], "two": [two, symbol]})
    assert [question.query for question in asked["one"]] == ["two", *OFF_TOPIC]
    assert [question.query for question in asked["two"]] == ["one", *OFF_TOPIC]
    assert not any(label.fits(Passage("a", 1, "")) for question in asked["one"] for label in question.relevant)


def test_keywords_alone_are_ranked_without_the_vectors_of_a_recording() -> None:
    rows = {name: hit_row(name, "words", file_path=f"{name}.txt", file_type="text") for name in ("near", "said")}
    legs = [Ranking("words", "vector", [RankedRow("near", 0.1)]), Ranking("words", "text", [RankedRow("said", 9.0)])]
    question = Question(query="words", kind="", relevant=(Label(path="said.txt"),))
    recorded = Recorded(question, np.ones(384, dtype=np.float32), legs, ())
    modes: dict[Mode, set[str]] = {"hybrid": {"near", "said"}, "keyword": {"said"}, "vector": {"near"}}
    for mode, expected in modes.items():
        found = ranked(Query(query="words", mode=mode), WEIGHTS, recorded, rows)
        assert {candidate.id for candidate in found} == expected


def test_settings_of_the_environment_apply_to_each_service_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    settings_of_run.cache_clear()
    monkeypatch.setenv("CHUNK_SIZE_TOKENS", "99")
    found = [settings_of_run()]
    monkeypatch.delenv("CHUNK_SIZE_TOKENS")
    found.append(settings_of_run())
    settings_of_run.cache_clear()
    assert [each["CHUNK_SIZE_TOKENS"] for each in found] == ["99", "99"]


def lines_of(folder: Path, question: Question) -> str:
    (label,) = question.relevant
    first, last = label.lines or (0, 0)
    return "\n".join((folder / label.path).read_text().splitlines()[first - 1 : last])


def test_labels_of_lines_hold_what_is_asked_for(tmp_path: Path) -> None:
    context = "One line\nand another one."
    paragraphs = [{"context": f"{n} {context}", "qas": [{"question": f"which {n}?"}]} for n in range(3)]
    packed = tmp_path / "articles.xz"
    packed.write_bytes(lzma.compress(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}).encode()))
    fill_articles(packed, tmp_path / "articles")
    found = [lines_of(tmp_path / "articles", question) for question in ask_articles(packed)]
    assert found == [f"## Part {n + 1}\n\n{n} {context}" for n in range(3)]
    fill_bare(tmp_path / "bare")
    assert all("..." in lines_of(tmp_path / "bare", question) for question in ask_bare())
    for question in ask_names(tmp_path / "bare"):
        assert question.query in " ".join(words(lines_of(tmp_path / "bare", question)))


@pytest.mark.parametrize("stray", ["log", "folders", ""])
def test_a_file_in_the_place_of_a_kept_directory_ends_the_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stray: str
) -> None:
    place = tmp_path / "kept"
    monkeypatch.setenv("BENCH_HOME", str(place))
    with home_of_run() as home:
        assert home == place
    if stray:
        place.mkdir()
    (place / stray).write_text("stray")
    with pytest.raises(SystemExit, match=f"{place / stray} is no directory; .* BENCH_HOME"), home_of_run():
        pass
