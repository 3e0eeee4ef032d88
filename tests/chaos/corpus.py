"""Small folders whose every text names its folder, so that each case's paid texts can be told apart."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from zlib import crc32

#: A time old enough for a stamp to be trusted.
LONG_AGO = 1_600_000_000
FRUITS = ("apples", "birds", "cars")
#: Number of Markdown files in a folder.
NOTES = 24

_marks = count(1)


def new_mark() -> str:
    """A word of fixed length that no other folder has."""
    return f"mark{next(_marks):04}x"


def make(folder: Path, mark: str, notes: int = NOTES) -> Path:
    """Create a folder of Markdown, JSON and code, with one file for each outcome other than `indexed`."""
    files = {f"note-{number:02}.md": note(mark, f"{number:02}") for number in range(notes)}
    files["inner/data.json"] = f'{{"{mark}": {{"fruit": "apples"}}, "birds": ["{mark}", "two"]}}'
    files["inner/code.py"] = f"def {mark}() -> int:\n    return 1\n\n\nclass Bird:\n    name = '{mark}'\n"
    files["empty.txt"] = ""
    files["broken.pdf"] = f"%PDF-1.7 {mark}"
    for name, text in files.items():
        write(folder / name, text)
    (folder / "picture.txt").write_bytes(b"\0\1\2\0")
    return folder


def note(mark: str, name: str, sections: tuple[str, ...] = FRUITS) -> str:
    return "".join(f"# {word} {name}\n\nThis is {mark}, which tells of {word} in {name}.\n\n" for word in sections)


def write(path: Path, text: str) -> None:
    """Write a file whose stamp is trusted at once, and differs if the text does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (LONG_AGO, LONG_AGO + crc32(text.encode()) % 1_000_000))


def edit(folder: Path, mark: str) -> None:
    """Change, rename and remove files. Every edited note loses a chunk and gets a new one."""
    for number in range(0, 12, 2):
        write(folder / f"note-{number:02}.md", note(mark, f"{number:02}", ("apples", "zebras", "cars")))
    (folder / "note-13.md").rename(folder / "renamed-13.md")
    (folder / "note-14.md").unlink()
    write(folder / "new.md", note(mark, "new"))
