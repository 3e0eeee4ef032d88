"""A group of commands whose help lists them in two sections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click


class HelpSections(click.Group):
    """Lists the commands `first` below their title, in their order, and all others below `rest`."""

    def __init__(self, *args: Any, first: tuple[str, Sequence[click.Command]], rest: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._first, self._rest = first, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write both lists."""
        title, first = self._first
        names = {command.name for command in first}
        rest = [command for name, command in sorted(self.commands.items()) if name not in names]
        for heading, commands in ((title, first), (self._rest, rest)):
            width = formatter.width - 6 - max(len(name) for name in self.commands)
            with formatter.section(heading):
                formatter.write_dl([(command.name or "", command.get_short_help_str(width)) for command in commands])
