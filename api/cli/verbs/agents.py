"""The verbs for agents: serve one, and tell those of this machine how to start it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from api.cli.invocation import FOUND, NOTHING, Invocation, confirm, verb, yes

if TYPE_CHECKING:
    from api.cli.mcp_clients import Client

#: The programs that can be set up.
CLIENTS = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "zed")
#: What tells an agent when to search.
SNIPPET = """\
## Finding things

Foldex has indexed folders of this machine. Use its tools before you read files one by one:

- `search` for what you can describe but not name: "where are leases renewed".
- `grep` for an exact word or pattern, in documents and archives too.
- `list_folders` for what is indexed, and how current it is.

Cite what you find as `path:line`.
"""


class ServeByDefault(click.Group):
    """A group whose first command is meant if none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name the command `serve` unless another one, or help, is asked for."""
        is_named = bool(args) and (args[0] in self.commands or args[0] in self.get_help_option_names(ctx))
        return super().parse_args(ctx, args if is_named else ["serve", *args])


@click.group(cls=ServeByDefault)
def mcp() -> None:
    """Serve agents, and set them up.

    `foldex mcp` alone, or with folders, means `foldex mcp serve`.
    """


@verb(
    "foldex mcp",
    "foldex mcp ~/notes ~/work/project",
    "claude mcp add foldex -- foldex mcp",
    "foldex mcp --server https://foldex.example.org --key $KEY",
    prints=False,
)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@click.option("--allow-delete", is_flag=True, help="Offer the tool delete_folder, which deletes indexes.")
def serve(invocation: Invocation, folders: tuple[str, ...], allow_delete: bool) -> int:
    """Serve an agent over standard input and output, by MCP.

    An agent starts this command itself. It may index each FOLDER, and folders that `foldex index` has named. If no
    Foldex runs on this machine, it is started and stays.
    """
    from api.cli.agents import serve as serve_agent

    serve_agent(invocation, folders, allow_delete=allow_delete)
    return FOUND


named_clients = click.argument("names", nargs=-1, metavar="[CLIENT]...", type=click.Choice(CLIENTS))


@click.command(
    epilog="\b\nExamples:\n  foldex mcp install\n  foldex mcp install cursor zed --folder ~/notes\n"
    "  foldex mcp install --print codex"
)
@named_clients
@click.option("--folder", "folders", multiple=True, metavar="PATH", help="A folder that it may index; repeatable.")
@click.option("--print", "is_printed_only", is_flag=True, help="Print what would be written, and write nothing.")
@yes
def install(names: tuple[str, ...], folders: tuple[str, ...], is_printed_only: bool, yes: bool) -> None:
    """Let the agents of this machine start Foldex.

    CLIENT is claude-code, claude-desktop, cursor, vscode, codex, gemini or zed; default: each that is found. Their
    configuration files are changed after a yes, and nothing else in them.
    """
    from api.cli.mcp_clients import server

    started = server(folders)
    if is_printed_only:
        for client in _chosen(names) or _chosen(CLIENTS):
            click.echo(f"{client.name}: {client.file}\n\n{client.text_with('', client.entry(started))}")
        return
    found = _chosen(names)
    if not found:
        click.echo(f"None of these programs was found: {', '.join(CLIENTS)}; name one to write its file.", err=True)
        sys.exit(NOTHING)
    meant = [client for client in found if client.text_with(text := client.read(), client.entry(started)) != text]
    _ask("Let these start Foldex?", meant, is_sure=yes)
    for client in found:
        if client in meant:
            client.write(client.entry(started))
        click.echo(f"{client.name} starts Foldex: {client.file}")
    if meant:
        click.echo("Start these programs again. `foldex mcp snippet` prints lines for AGENTS.md.", err=True)


@click.command(epilog="\b\nExamples:\n  foldex mcp uninstall\n  foldex mcp uninstall cursor --yes")
@named_clients
@yes
def uninstall(names: tuple[str, ...], yes: bool) -> None:
    """Let the agents of this machine no longer start Foldex.

    CLIENT is one of those of `foldex mcp install`; default: each whose file names Foldex.
    """
    meant = [client for client in _chosen(names or CLIENTS) if client.text_with(text := client.read(), None) != text]
    if not meant:
        click.echo("No file names Foldex.", err=True)
        sys.exit(NOTHING)
    _ask("Let these no longer start Foldex?", meant, is_sure=yes)
    for client in meant:
        client.write(None)
        click.echo(f"{client.name} no longer starts Foldex: {client.file}")


@click.command(epilog="\b\nExamples:\n  foldex mcp snippet >> AGENTS.md")
def snippet() -> None:
    """Print lines for AGENTS.md that tell agents when to search."""
    click.echo(SNIPPET, nl=False)


def _chosen(names: Sequence[str]) -> list[Client]:
    """The clients of these names, or without any those that are found."""
    from api.cli.mcp_clients import clients

    return [client for client in clients() if (client.id in names if names else client.is_found)]


def _ask(question: str, meant: Sequence[Client], *, is_sure: bool) -> None:
    if not meant:
        return
    files = "".join(f"\n  {client.name}: {client.file}" for client in meant)
    refusal = f"{', '.join(client.name for client in meant)} would be changed; give --yes."
    confirm(f"{question}{files}\nWrite?", refusal, is_sure=is_sure, default=True)


for command in (serve, install, uninstall, snippet):
    mcp.add_command(command)
