"""Chooses the tool that a user or an agent means by a name or a path. Imports the standard library only."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from foldex_client import Tool

#: How the address of a bucket begins.
BUCKET = "s3://"
#: The project of new tools if nothing names one.
DEFAULT_PROJECT = "default"
#: An id of a tool.
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
#: Characters with a meaning in patterns.
_SPECIAL = re.compile(r"([*?\[\]{}!\\])")


@dataclass(frozen=True, slots=True)
class FolderPart:
    """A tool, and the part of its folder that is meant: a path below it, or "" for all of it."""

    tool: Tool
    below: str = ""

    def holds(self, path: str) -> bool:
        """Whether a file of the tool's folder is meant."""
        return not self.below or is_above(self.below, path)

    def pattern(self, glob: str | None) -> str | None:
        """The filter that selects the part, and in it the files that `glob` selects; None for everything."""
        if not self.below:
            return glob
        literal = "/" + _SPECIAL.sub(r"\\\1", self.below)
        if not glob:
            return literal
        return f"{literal}/{glob.lstrip('/')}" if "/" in glob else f"{literal}/**/{glob}"


def real(path: str) -> str:
    """The path without symbolic links."""
    return os.path.realpath(path)


def root_of(tool: Tool, resolved: Callable[[str], str] = real) -> str:
    """The path of a tool's folder, the address of its bucket, or "" for nodes."""
    if tool.node_id is not None:
        return ""
    return resolved(tool.place) if tool.place.startswith("/") else tool.place.rstrip("/")


class Target(TypedDict, total=False):
    """A folder or a bucket, as the client names it."""

    path: str
    bucket: str
    prefix: str


def target(place: str) -> Target:
    """The arguments with which the client creates or estimates a tool over a folder or the address of a bucket."""
    if not place.startswith(BUCKET):
        return {"path": place}
    bucket, _, prefix = place.removeprefix(BUCKET).partition("/")
    return {"bucket": bucket, "prefix": prefix}


def nearest(tools: Iterable[Tool], path: str, resolved: Callable[[str], str] = real) -> FolderPart | None:
    """The tool with the nearest folder at or above a path. Among equal folders, a ready tool, then the newest."""
    around = [(root, tool) for tool in tools if is_above(root := root_of(tool, resolved), path)]
    if not around:
        return None
    root, tool = max(around, key=lambda each: (len(each[0]), each[1].task == "ready", each[1].created_at))
    return FolderPart(tool, path[len(root) :].strip("/"))


def called(tools: Iterable[Tool], word: str) -> list[Tool]:
    """The tools with a name."""
    return [tool for tool in tools if is_name(word) and tool.name == word]


def at(tools: Iterable[Tool], word: str, path: str, resolved: Callable[[str], str] = real) -> list[Tool]:
    """The tools with a name, and those over exactly the folder of a path."""
    return [tool for tool in tools if (is_name(word) and tool.name == word) or root_of(tool, resolved) in {path, word}]


def is_above(root: str, path: str) -> bool:
    """Whether a path is a folder, or lies below it."""
    return bool(root) and (path == root or path.startswith(root.rstrip("/") + "/"))


def is_name(word: str) -> bool:
    """Whether a word may be a name: what begins as a path is one."""
    return not word.startswith((".", "/", "~", BUCKET))


def is_id(word: str) -> bool:
    """Whether a word has the form of a tool's id."""
    return _ID.fullmatch(word) is not None
