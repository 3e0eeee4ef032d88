"""Questions over installed packages: which file raises the error with a given message."""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import cycle

from tests.bench.search.questions import Label, Question
from tests.bench.search.sources import sources

MESSAGES, SEED = 160, 7
#: Word counts of a message that is specific enough to be a question.
FEWEST, MOST = 5, 30
#: Values to fill into the placeholders of a message.
VALUES = ("'abc'", "42", "None", "<class 'int'>", "http://x.org/a")
_PLACE = re.compile(r"%[rsd]|\{[^}]*\}")

#: The forms in which people paste an error, from its class and message.
FORMS: dict[str, Callable[[str, str], str]] = {
    "as printed": lambda _, message: message,
    "with its class": lambda class_, message: f"{class_}: {message}",
    "its beginning": lambda _, message: " ".join(message.split()[: max(4, len(message.split()) // 2)]).lower(),
    "asked": lambda _, message: f"why do I get the error {message.rstrip('.').lower()}?",
}


def ask() -> list[Question]:
    """Questions for messages that occur in one place, with values filled in. The forms take turns."""
    every = list(_raised())
    times = Counter(message for *_, message in every)
    fit = [each for each in every if times[each[2]] == 1 and FEWEST <= len(each[2].split()) <= MOST]
    chosen = random.Random(SEED).sample(fit, MESSAGES)
    values, forms = cycle(VALUES), cycle(FORMS.items())
    return [
        Question(query=form(class_, _filled(message, values)), kind=kind, relevant=(Label(path=path),))
        for (path, class_, message), (kind, form) in zip(chosen, forms, strict=False)
    ]


def _filled(message: str, values: Iterator[str]) -> str:
    return _PLACE.sub(lambda _: next(values), message)


def _raised() -> Iterator[tuple[str, str, str]]:
    """Path, class and message of every error that is raised with a message."""
    for path, source in sources().items():
        for class_, message in raised(source):
            yield path, class_, message


def raised(source: str) -> Iterator[tuple[str, str]]:
    """Error classes and their messages, on one line, with a placeholder for each value."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            yield ast.unparse(node.exc.func).rpartition(".")[2], " ".join(_text(node.exc.args[0]).split())


def _text(node: ast.expr) -> str:
    """The text of a string literal in the source; "" for anything else."""
    if isinstance(node, ast.BinOp):
        return _text(node.left)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "%s" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
