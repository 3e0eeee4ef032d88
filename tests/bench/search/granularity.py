"""Compares `config.granularity` over the same files and questions, in each mode of a search.

The repositories of `EVAL_DIR` have files as labels. The rest has lines: definitions, which the words of their name ask
for, or a docstring that was removed; and sections of articles. `BENCH_MODEL` is the embedding model.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from schemas.content.document import CodeDefinition
from schemas.content.source import Granularity
from schemas.errors import FileError
from tests.bench.search import sources
from tests.bench.search.definitions import FEWEST, MOST, SEED, summary, words
from tests.bench.search.folded import Folds, articles
from tests.bench.search.indexed import indexed
from tests.bench.search.measures import MEASURES
from tests.bench.search.questions import Label, Question
from tests.bench.search.recorded import Recording, recording
from tests.bench.search.trees.coverage import difference
from tests.bench.search.variants import Variant, found_by
from tests.parsing import parse
from worker.parse import Limits

MODES = ("hybrid", "vector", "keyword")
#: The largest number of definitions that are asked for in one folder.
NAMES = 80
#: Packages whose definitions are asked for by their docstrings.
PACKAGES = ("flask", "structlog")
CHUNKS = "SELECT tool.id::text, count(*) FROM search_tool tool JOIN chunk USING (index_id) GROUP BY tool.id"
DEFINING = frozenset({"class", "function", "method"})

#: The measures of each kind of question.
MEASURED = {"files": ["nDCG@10"], "names": ["recall@10"], "docstrings": ["recall@10"], "sections": ["recall@10", "MRR"]}
GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)


def compare(place: Path, code: Folds, prose: Path) -> None:
    """Index every folder with each granularity, and print each measure by kind of question."""
    fills: dict[str, Callable[[Path], None]] = {
        **{f"code-{name}": each.fill for name, each in code.items()},
        "bare": fill_bare,
        "articles": partial(fill_articles, prose),
    }
    recordings = {granularity: _recordings(place, fills, granularity, code, prose) for granularity in GRANULARITIES}
    print(f"{'':32}" + "".join(f"{name:>12}" for name in (*GRANULARITIES, "change", "two errors")), flush=True)
    for kind, measures in MEASURED.items():
        for measure in measures:
            for mode in MODES:
                of_kind = [_values(recordings[granularity][kind], measure, mode) for granularity in GRANULARITIES]
                _row(f"{kind:12}{measure:11}{mode:9}", *of_kind)


def _recordings(
    place: Path, fills: Mapping[str, Callable[[Path], None]], granularity: Granularity, code: Folds, prose: Path
) -> dict[str, list[Recording]]:
    with indexed(place, fills, granularity) as (service, tools):
        chunks = dict(service.rows(CHUNKS))
        print(f"{granularity}:", {name: chunks[tools[f"{name}-{granularity}"]] for name in fills}, flush=True)
        return {
            kind: [
                recording(place / f"{granularity}-{kind}-{name}.pickle", service, tools[f"{name}-{granularity}"], asked)
                for name, asked in of_kind.items()
            ]
            for kind, of_kind in _asked(place / "folders", code, prose).items()
        }


def _asked(folders: Path, code: Folds, prose: Path) -> Mapping[str, Mapping[str, Sequence[Question]]]:
    """The questions by their kind and their folder."""
    return {
        "files": {f"code-{name}": each.ask() for name, each in code.items()},
        "names": {f"code-{name}": ask_names(folders / f"code-{name}") for name in code},
        "docstrings": {"bare": ask_bare()},
        "sections": {"articles": ask_articles(prose)},
    }


def _values(recordings: Sequence[Recording], measure: str, mode: str) -> list[list[float]]:
    """The measure of each question, by folder."""
    return [[MEASURES[measure](found) for found in found_by(Variant(mode=mode), each)] for each in recordings]


def _row(name: str, whole: list[list[float]], packed: list[list[float]]) -> None:
    """Print the means over the folders, and what packing changes for a question."""
    change = difference([*chain(*packed)], [*chain(*whole)])
    cells = (f"{fmean(map(fmean, whole)):.3f}", f"{fmean(map(fmean, packed)):.3f}")
    print(
        name + "".join(f"{cell:>12}" for cell in (*cells, f"{change.value:+.3f}", f"{2 * change.error:.3f}")),
        flush=True,
    )


def ask_names(folder: Path) -> list[Question]:
    """Questions for definitions whose name occurs once and has several words, each answered by its lines."""
    every = [
        (str(path.relative_to(folder)), definition)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for definition in _definitions(path)
        if definition.kind in DEFINING
    ]
    times = Counter(definition.name for _, definition in every)
    fit = [(path, each) for path, each in every if times[each.name] == 1 and len(words(each.name)) > 1]
    chosen = random.Random(SEED).sample(fit, min(len(fit), NAMES))
    return [
        Question(
            query=" ".join(words(each.name)),
            kind="name",
            relevant=(Label(path=path, lines=(each.start_line, each.end_line)),),
        )
        for path, each in chosen
    ]


def _definitions(path: Path) -> Sequence[CodeDefinition]:
    try:
        return parse(path.name, path.read_bytes(), Limits()).definitions
    except FileError:
        return ()


def _bare() -> Iterator[tuple[str, str, str]]:
    for path, source in sources.sources().items():
        if path.split("/")[0] in PACKAGES:
            yield path, source, sources.without_docstrings(source)


def fill_bare(folder: Path) -> None:
    """Write the packages' sources without docstrings."""
    for path, _, bare in _bare():
        sources.write(folder / path, bare)


def ask_bare() -> list[Question]:
    """Questions from first sentences that occur once, each answered by the lines of its definition."""
    every = [
        (summary(ast.get_docstring(documented) or ""), path, node)
        for path, source, bare in _bare()
        for documented, node in zip(ast.walk(ast.parse(source)), ast.walk(ast.parse(bare)), strict=True)
        if isinstance(documented, sources.DEFINITIONS) and isinstance(node, sources.DEFINITIONS)
    ]
    times = Counter(said for said, _, _ in every)
    return [
        Question(query=said, kind="docstring", relevant=(Label(path=path, lines=(node.lineno, node.end_lineno or 0)),))
        for said, path, node in every
        if times[said] == 1 and FEWEST <= len(said.split()) <= MOST
    ]


def fill_articles(file: Path, folder: Path) -> None:
    """Write each article as Markdown with a section for each paragraph."""
    folder.mkdir(parents=True)
    for number, article in enumerate(articles(file)):
        (folder / f"{number:02}.md").write_text("".join(_sections(article)))


def _sections(article: Mapping[str, Any]) -> Iterator[str]:
    yield f"# {article['title']}\n\n"
    for part, paragraph in enumerate(article["paragraphs"]):
        yield f"## Part {part + 1}\n\n{paragraph['context']}\n\n"


def ask_articles(file: Path) -> list[Question]:
    """The questions about each paragraph, answered by its lines."""
    asked = []
    for number, article in enumerate(articles(file)):
        line = 3
        for paragraph in article["paragraphs"]:
            last = line + 2 + paragraph["context"].count("\n")
            label = Label(path=f"{number:02}.md", lines=(line, last))
            asked += [Question(query=each["question"], kind="section", relevant=(label,)) for each in paragraph["qas"]]
            line = last + 2
    return asked
