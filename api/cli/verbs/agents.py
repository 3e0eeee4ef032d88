"""The verb that serves agents."""

from __future__ import annotations

import click

from api.cli.invocation import FOUND, Invocation, verb


@verb(
    "foldex mcp",
    "foldex mcp ~/notes ~/work/project",
    "claude mcp add foldex -- foldex mcp",
    "foldex mcp --server https://foldex.example.org --key $KEY",
    prints=False,
)
@click.argument("folders", nargs=-1, metavar="[FOLDER]...")
@click.option("--allow-delete", is_flag=True, help="Offer the tool delete_folder, which deletes indexes.")
def mcp(invocation: Invocation, folders: tuple[str, ...], allow_delete: bool) -> int:
    """Serve an agent over standard input and output, by MCP.

    An agent starts this command itself. It may index each FOLDER, and folders that `foldex index` has named. If no
    Foldex runs on this machine, it is started and stays.
    """
    from api.cli.agents import serve

    serve(invocation, folders, allow_delete=allow_delete)
    return FOUND
