"""Question sets in folds, from the folder that `EVAL_DIR` names: repositories of code, and one text in many languages.

Each fold has a folder and questions of its own, so that a choice can be made on all folds but one and judged on that.
The folder has `code/NAME.tar.xz` with `code/NAME.questions.json`, and `xquad/xquad.LANGUAGE.json.xz`.
"""

from __future__ import annotations

import json
import lzma
import tarfile
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.bench.search.questions import Label, Question
from tests.bench.search.sets import Set

#: Characters on each side of an answer that a chunk must have too, since a year or a name may stand in many.
AROUND = 20
#: The folds of each set, by name.
Folds = dict[str, Set]


def folded_sets(eval_dir: Path) -> dict[str, Folds]:
    """The folded sets that the folder has, by name."""
    return {
        "code": {
            archive.name.removesuffix(".tar.xz"): Set(partial(unpack, archive), partial(ask_repository, archive))
            for archive in sorted((eval_dir / "code").glob("*.tar.xz"))
        },
        "xquad": {
            file.name.split(".")[1]: Set(partial(write_paragraphs, file), partial(ask_paragraphs, file))
            for file in sorted((eval_dir / "xquad").glob("xquad.*.json.xz"))
        },
        "articles": {
            file.name.split(".")[1]: Set(partial(write_articles, file), partial(ask_articles, file))
            for file in sorted((eval_dir / "xquad").glob("xquad.*.json.xz"))
        },
    }


def unpack(archive: Path, folder: Path) -> None:
    """Write the files of a repository."""
    folder.mkdir(parents=True)
    with tarfile.open(archive) as files:
        # Python 3.11.2, which Debian 12 has, knows no filters
        if hasattr(tarfile, "data_filter"):
            files.extraction_filter = tarfile.data_filter
        files.extractall(folder)


def ask_repository(archive: Path) -> list[Question]:
    """The questions of a repository. Every file that answers one counts alike."""
    questions = json.loads(archive.with_name(archive.name.replace(".tar.xz", ".questions.json")).read_text())
    return [
        Question(
            query=each["query"],
            kind=each["category"],
            relevant=tuple(Label(path=path) for path in dict.fromkeys([*each["relevant"], *each["secondary"]])),
        )
        for each in questions
    ]


@cache
def articles(file: Path) -> list[dict[str, Any]]:
    """The articles of a file in SQuAD's format."""
    read: list[dict[str, Any]] = json.loads(lzma.decompress(file.read_bytes()))["data"]
    return read


def write_paragraphs(file: Path, folder: Path) -> None:
    """Write each paragraph to a file of its own, in a folder for its article."""
    for number, article in enumerate(articles(file)):
        place = folder / f"{number:02}"
        place.mkdir(parents=True)
        for part, paragraph in enumerate(article["paragraphs"]):
            (place / f"{part}.txt").write_text(paragraph["context"])


def ask_paragraphs(file: Path) -> list[Question]:
    """The questions of a language, each answered by its own paragraph."""
    return [
        Question(query=asked["question"], kind="paragraph", relevant=(Label(path=f"{number:02}/{part}.txt"),))
        for number, article in enumerate(articles(file))
        for part, paragraph in enumerate(article["paragraphs"])
        for asked in paragraph["qas"]
    ]


def write_articles(file: Path, folder: Path) -> None:
    """Write each article to a file, with its paragraphs below each other."""
    folder.mkdir(parents=True)
    for number, article in enumerate(articles(file)):
        paragraphs = [paragraph["context"] for paragraph in article["paragraphs"]]
        (folder / f"{number:02}.txt").write_text("\n\n".join(paragraphs) + "\n")


def ask_articles(file: Path) -> list[Question]:
    """The questions of a language, each answered by the chunks of its article with the words around its answer."""
    return [
        Question(
            query=asked["question"],
            kind="article",
            relevant=(Label(path=f"{number:02}.txt", contains=_surroundings(paragraph["context"], asked)),),
        )
        for number, article in enumerate(articles(file))
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]


def _surroundings(text: str, asked: dict[str, Any]) -> str:
    """The answer with some characters before and after it."""
    start = asked["answers"][0]["answer_start"]
    end = start + len(asked["answers"][0]["text"])
    return text[max(0, start - AROUND) : end + AROUND].strip()
