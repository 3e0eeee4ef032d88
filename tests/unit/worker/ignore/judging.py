"""Judges single paths by rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from schemas.tool import IgnoredKind
from worker.ignore import IGNORE_FILES, IgnoreFile, Rules, Trail

BARE = Rules(keep=get_args(IgnoredKind))


def judge(rules: Rules, path: str, ignore_files: Mapping[str, bytes | str] | None = None) -> str | None:
    """The rule that leaves a path out, in a folder with these ignore files."""
    held = {path: text.encode() if isinstance(text, str) else text for path, text in (ignore_files or {}).items()}

    def load(way: tuple[str, ...]) -> Iterator[IgnoreFile]:
        found = ((name, "/".join((*way, name))) for name in IGNORE_FILES)
        return ((name, held[path]) for name, path in found if path in held)

    trail = Trail(rules, str, load)
    *folders, name = path.split("/")
    pruned = trail.pruned(tuple(folders))
    return f"{'/'.join(pruned[0])}/: {pruned[1]}" if pruned else trail.ignored(name)
