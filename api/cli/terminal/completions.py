"""Shell completions for tools and paths: tools of the running service, and folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from api.agents.folders import root_of
from api.cli.invocation import Invocation
from api.cli.service.connection import connect
from api.cli.service.tool_lookup import tools_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from foldex_client import Tool

#: Seconds for which a shell waits for the names of tools.
PATIENCE = 1.0
#: Words that shells would take apart, or that end their list of completions.
_NEEDS_QUOTES = re.compile(r"[\s:\"'\\$`&|;<>()\[\]{}*?!#\x00-\x1f\x7f-\x9f]")


def complete_places(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The files that a shell knows, and the names, ids and folders of tools. Nothing is started or told."""
    from click.shell_completion import CompletionItem

    # bash completes files only if no other word fits
    found = [CompletionItem(incomplete, type="file")]
    for word, tool in _tool_words(context, incomplete).items():
        found.append(CompletionItem(word, help=root_of(tool) if word == tool.name else tool.name))
    return found


def _tool_words(context: click.Context, incomplete: str) -> dict[str, Tool]:
    given = context.params
    invocation = Invocation(given.get("server"), given.get("key"), given.get("project"), as_json=False)
    try:
        with connect(invocation, patience=PATIENCE) as service:
            tools = tools_of(service)
    except Exception:  # noqa: BLE001 - a shell would print the error into the line that is being typed
        return {}
    return {word: tool for tool in tools for word in _words(tool, incomplete)}


def _words(tool: Tool, incomplete: str) -> Iterator[str]:
    root, user = root_of(tool), os.path.expanduser("~")  # noqa: PTH111 - strings as they are
    shown = f"~{root.removeprefix(user)}" if incomplete.startswith("~") and root.startswith(f"{user}/") else root
    # ids are long, and nobody begins with one by chance
    for word in (tool.name, shown if incomplete.startswith(("/", "~")) else "", tool.tool_id if incomplete else ""):
        if word and word.startswith(incomplete) and not _NEEDS_QUOTES.search(word):
            yield word
