"""The page's files, read once: each with its type, its compressed form and its tag."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DIRECTORY = Path(__file__).parent / "static"

#: MIME types by suffix. Those of the machine may differ, and a browser runs no module of another type.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
INDEX = "index.html"
#: Stands in the page for the version, which is part of each address, so that browsers keep the files forever.
_VERSION = b"{version}"
#: Stands in the page for the list of modules, which a browser would otherwise find one after the other.
_MODULES = b"{modules}"
#: What is not sent: of scripts indentation and lines of comments, so that lines keep their numbers; of styles comments
#: and the space around marks.
_SPARE = {
    ".js": re.compile(rb"^[ \t]*//.*$|^[ \t]+", re.MULTILINE),
    ".css": re.compile(rb"/\*.*?(?:\*/|\Z)|(?<!\s)\s+(?=[{};,])|(?<=[{};,])\s+|(?<=:) ", re.DOTALL),
}


@dataclass(frozen=True)
class StaticFile:
    """One file as it is sent."""

    content: bytes
    media_type: str

    @cached_property
    def compressed(self) -> bytes:
        """The content for browsers that accept gzip."""
        return gzip.compress(self.content, mtime=0)

    @cached_property
    def tag(self) -> str:
        """The value of `ETag`."""
        return f'"{_digest(self.content)}"'


class PageFiles:
    """All files by their path below the version."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        found = sorted(path for path in directory.rglob("*") if path.suffix in TYPES)
        contents = {path.relative_to(directory).as_posix(): _lean(path) for path in found}
        self.version = _digest(b"".join(name.encode() + content for name, content in contents.items()))
        contents[INDEX] = self._index(contents)
        self._files = {name: StaticFile(content, TYPES[Path(name).suffix]) for name, content in contents.items()}

    @property
    def index(self) -> StaticFile:
        """The page itself."""
        return self._files[INDEX]

    def get(self, version: str, name: str) -> StaticFile | None:
        """A file of this version; None if there is none."""
        return self._files.get(name) if version == self.version and name != INDEX else None

    def _index(self, contents: dict[str, bytes]) -> bytes:
        modules = [name for name in contents if name.endswith(".js") and name != "js/theme.js"]
        links = "\n".join(f'<link rel="modulepreload" href="page/{{version}}/{name}">' for name in modules)
        page = contents[INDEX].replace(_MODULES, links.encode())
        return page.replace(_VERSION, self.version.encode())


def _lean(path: Path) -> bytes:
    """The file without what only its authors read. A vendored file stays as its hash says."""
    content = path.read_bytes()
    is_own = path.suffix in _SPARE and path.parent.name != "vendor"
    return _SPARE[path.suffix].sub(b"", content) if is_own else content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
