"""Questions over installed packages: which file defines a name, and which definition matches a docstring.

Docstrings are used as queries, as in CodeSearchNet (Husain et al., 2019). They are removed from the indexed sources.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Callable

from tests.bench.search.questions import Label, Question
from tests.bench.search.sources import Definition, definitions

NAMES, DOCSTRINGS, SEED = 200, 160, 5
#: Words of a sentence that is specific enough to be a question.
FEWEST, MOST = 5, 30

#: Ways to ask for a definition, by kind.
FORMS: dict[str, Callable[[Definition], str]] = {
    "bare name": lambda node: node.name,
    "keyword and name": lambda node: f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}",
    "where is": lambda node: f"where is {node.name} defined?",
    "split words": lambda node: " ".join(words(node.name)),
}


def ask_names() -> list[Question]:
    """Questions for public names of several words that are defined once. The forms take turns."""
    every = list(definitions())
    times = Counter(node.name for _, node in every)
    fit = [(path, node) for path, node in every if times[node.name] == 1 and len(words(node.name)) > 1]
    public = [(path, node) for path, node in fit if not node.name.startswith("_")]
    chosen = random.Random(SEED).sample(public, NAMES)
    forms = [*FORMS.items()] * NAMES
    return [_question(ask(node), kind, path) for (path, node), (kind, ask) in zip(chosen, forms, strict=False)]


def ask_docstrings() -> list[Question]:
    """Questions from first sentences that occur once."""
    every = [(path, summary(ast.get_docstring(node) or "")) for path, node in definitions()]
    times = Counter(said for _, said in every)
    fit = [(path, said) for path, said in every if times[said] == 1 and FEWEST <= len(said.split()) <= MOST]
    return [_question(said, "docstring", path) for path, said in random.Random(SEED).sample(fit, DOCSTRINGS)]


def words(name: str) -> list[str]:
    """The words of an identifier: `TokenBucket` and `token_bucket` both give "token bucket"."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)]


def summary(docstring: str) -> str:
    """The first sentence on one line, without reStructuredText markup."""
    first = " ".join(docstring.partition("\n\n")[0].split())
    plain = re.sub(r":\w+:`~?([^`<]*?)(?:\s*<[^>]*>)?`", r"\1", first).replace("`", "")
    return re.split(r"(?<=[.!?])\s", plain)[0]


def _question(query: str, kind: str, path: str) -> Question:
    return Question(query=query, kind=kind, relevant=(Label(path=path),))
