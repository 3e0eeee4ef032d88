"""The pages of the documentation and their code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: All pages that tell readers how to use Foldex.
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
#: Marks a block that cannot run in a test, with the reason.
_NOT_RUN = "<!-- not run: "
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `runs` is false if the page says that it cannot run in a test."""

    language: str
    text: str
    runs: bool


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(found[2], dedent(found[3]), runs=_NOT_RUN not in text[: found.start()].rstrip().rpartition("\n")[2])
        for found in _BLOCK.finditer(text)
    ]
