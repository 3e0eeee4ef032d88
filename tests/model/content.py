"""Small texts with words of their own, and which files of a folder the rules leave: computed here a second time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

#: Ignore files that the machine writes; of one directory the later one wins.
IGNORE_FILES = (".gitignore", ".foldexignore")
#: Endings of files, and how often each is chosen. The last two are what ignore files speak of.
ENDINGS = {"md": 6, "txt": 4, "json": 3, "py": 2, "tmp": 3, "log": 2}
#: Bytes of a file that is still read.
MOST_BYTES = 4_000

#: Letters of which no stemmer takes anything away.
_LETTERS = "bcdfgjklmnpqrtvwxz"


class Words:
    """Words that no text had before, each findable by itself."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._given: set[str] = set()

    def new(self) -> str:
        while (word := "q" + "".join(self._random.choices(_LETTERS, k=8))) in self._given:
            pass
        self._given.add(word)
        return word


def text(name: str, words: Sequence[str]) -> bytes:
    """A file of that name with a part for each word."""
    ending = name.rpartition(".")[2]
    if ending == "json":
        return ("{\n" + ",\n".join(f'  "{word}": {{"about": "{word}"}}' for word in words) + "\n}").encode()
    if ending == "py":
        return "\n\n".join(f"def {word}() -> str:\n    return '{word}'\n" for word in words).encode()
    return "\n".join(f"# About {word}\n\nThis part tells of {word} and of nothing else.\n" for word in words).encode()


def kept(files: Mapping[str, bytes], exclude: Sequence[str], *, use_ignore_files: bool) -> set[str]:
    """The paths that are indexed."""
    lines = {path: data.decode().splitlines() for path, data in files.items() if _is_ignore_file(path)}
    return {path for path in files if not _left_out(path, lines if use_ignore_files else {}, exclude)}


def _is_ignore_file(path: str) -> bool:
    return path.rpartition("/")[2] in IGNORE_FILES


def _left_out(path: str, lines: Mapping[str, Sequence[str]], exclude: Sequence[str]) -> bool:
    names = path.split("/")
    return any(
        _is_named("/".join(names[:place]), name, lines, exclude, is_dir=place < len(names) - 1)
        for place, name in enumerate(names)
    )


def _is_named(
    folder: str, name: str, lines: Mapping[str, Sequence[str]], exclude: Sequence[str], *, is_dir: bool
) -> bool:
    """The first that says anything decides: `exclude`, then ignore files from the nearest directory up."""
    for said in (exclude, *(_of_folder(above, lines) for above in _upwards(folder))):
        verdict = _verdict(said, name, is_dir=is_dir)
        if verdict is not None:
            return verdict
    return False


def _of_folder(folder: str, lines: Mapping[str, Sequence[str]]) -> list[str]:
    prefix = f"{folder}/" if folder else ""
    return [line for name in IGNORE_FILES for line in lines.get(prefix + name, ())]


def _upwards(folder: str) -> Iterator[str]:
    yield folder
    while folder:
        folder = folder.rpartition("/")[0]
        yield folder


def _verdict(lines: Sequence[str], name: str, *, is_dir: bool) -> bool | None:
    """What the last line says that matches a name; the machine writes no pattern with a slash in it."""
    found = None
    for line in lines:
        pattern = line.removeprefix("!")
        if (is_dir or not pattern.endswith("/")) and fnmatchcase(name, pattern.rstrip("/")):
            found = not line.startswith("!")
    return found
