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

#: Numbers of words that a question quotes of a message, at least and at most.
FEWEST_QUOTED, QUOTED = 3, 4
#: The forms in which people quote an error, from the words and the name of the package. They take turns.
QUOTING = ('"{0}"', 'where is "{0}" raised', 'why does {1} say "{0}"', 'handling of "{0}" errors in {1}')

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


def ask_quoted() -> list[Question]:
    """Questions that quote words of a message which one file alone has."""
    flat = {path: " ".join(source.lower().split()) for path, source in sources().items()}
    quoted = {words: path for path, _, message in _raised() if (words := quotable(message))}
    fit = [(words, path) for words, path in quoted.items() if [p for p in flat if words.lower() in flat[p]] == [path]]
    random.Random(SEED).shuffle(fit)
    return [
        Question(query=form.format(words, path.partition("/")[0]), kind="quoted", relevant=(Label(path=path),))
        for (words, path), form in zip(fit[:MESSAGES], cycle(QUOTING), strict=False)
    ]


def quotable(message: str) -> str:
    """The first words of the longest part of a message without placeholders; "" if there are too few."""
    parts = [part.replace('"', "").split() for part in _PLACE.split(message)]
    words = max(parts, key=len)[:QUOTED]
    return " ".join(words) if len(words) >= FEWEST_QUOTED else ""


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
