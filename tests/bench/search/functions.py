"""Questions of the web to small functions of installed packages. Each function is a file, without its docstring.

Most questions name the programming language, which few functions do.
"""

from __future__ import annotations

import ast
import random
import textwrap
from collections import Counter
from functools import cache
from pathlib import Path

from tests.bench.search.definitions import MOST, summary
from tests.bench.search.questions import Label, Question
from tests.bench.search.sources import sources, without_docstrings

FUNCTIONS, SEED = 1_200, 7
#: Lines of a function that does something, and that fits into few chunks.
SHORTEST, LONGEST = 4, 40
#: Minimum words of a sentence that is a question.
FEWEST = 4
#: How the web asks. The forms take turns.
FORMS = ("python {}", "how to {} in python", "{}")


@cache
def _functions() -> list[tuple[str, str]]:
    """The first sentence of the docstring, and the source without docstring, of each chosen function."""
    every = [
        (summary(ast.get_docstring(node) or ""), ast.get_source_segment(source, node, padded=True) or "")
        for source in sources().values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and SHORTEST <= (node.end_lineno or 0) - node.lineno <= LONGEST
    ]
    times = Counter(said for said, _ in every)
    fit = [(said, text) for said, text in every if FEWEST <= len(said.split()) <= MOST and times[said] == 1]
    others = [(said, text) for said, text in every if not said]
    chosen = [*fit, *random.Random(SEED).sample(others, max(0, FUNCTIONS - len(fit)))]
    return [(said, without_docstrings(textwrap.dedent(text))) for said, text in chosen]


def fill(folder: Path) -> None:
    """Write each function to a file of its own."""
    folder.mkdir(parents=True)
    for number, (_, text) in enumerate(_functions()):
        (folder / f"{number}.py").write_text(text + "\n")


def ask() -> list[Question]:
    """A question for each function with a docstring."""
    said = [(number, sentence) for number, (sentence, _) in enumerate(_functions()) if sentence]
    random.Random(SEED).shuffle(said)
    return [
        Question(
            query=FORMS[turn % len(FORMS)].format(sentence.rstrip(".").lower()),
            kind=FORMS[turn % len(FORMS)],
            relevant=(Label(path=f"{number}.py"),),
        )
        for turn, (number, sentence) in enumerate(said)
    ]
