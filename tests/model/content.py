"""Small texts with unique words, and an independent computation of which files of a folder the rules keep."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

#: Ignore files that the machine writes; of one directory the later one wins.
IGNORE_FILES = (".gitignore", ".foldexignore")
#: File extensions and their weights. The last two are those that ignore files mention.
ENDINGS = {"md": 6, "txt": 4, "json": 3, "py": 2, "tmp": 3, "log": 2}
#: Maximum bytes of a file that is still read.
MAX_BYTES = 4_000

#: Letters that no stemmer removes.
_LETTERS = "bcdfgjklmnpqrtvwxz"


class Words:
    """Words that no earlier text has, so that each can be searched for."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._given: set[str] = set()

    def new(self) -> str:
        while (word := "q" + "".join(self._random.choices(_LETTERS, k=8))) in self._given:
            pass
        self._given.add(word)
        return word


def text(name: str, words: Sequence[str]) -> bytes:
    """The content of a file of that name, with a part for each word."""
    ending = name.rpartition(".")[2]
    if ending == "json":
        return ("{\n" + ",\n".join(f'  "{word}": {{"about": "{word}"}}' for word in words) + "\n}").encode()
    if ending == "py":
        return "\n\n".join(f"def {word}() -> str:\n    return '{word}'\n" for word in words).encode()
    return "\n".join(f"# About {word}\n\nThis part tells of {word} and of nothing else.\n" for word in words).encode()


def kept(files: Mapping[str, bytes], exclude: Sequence[str], *, use_ignore_files: bool) -> set[str]:
    """The paths of the files that are indexed."""
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
    """The first source with a verdict decides: `exclude`, then ignore files from the nearest directory upwards."""
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
    """The verdict of the last line that matches a name. The machine writes no pattern with a slash inside."""
    found = None
    for line in lines:
        pattern = line.removeprefix("!")
        if (is_dir or not pattern.endswith("/")) and fnmatchcase(name, pattern.rstrip("/")):
            found = not line.startswith("!")
    return found
