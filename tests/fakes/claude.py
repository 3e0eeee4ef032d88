"""Stands for the agent Claude Code: it keeps the command of one server, and puts each question to its tool `search`.

`claude mcp add NAME -- COMMAND …` and `claude "Use NAME: QUESTION"`, in the directory of `CLAUDE_FAKE`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters


def main(arguments: list[str]) -> None:
    """Do what a command line asks for."""
    kept = Path(os.environ["CLAUDE_FAKE"]) / "servers.json"
    if arguments[:2] == ["mcp", "add"]:
        name, dashes, *command = arguments[2:]
        assert dashes == "--", arguments
        kept.write_text(json.dumps({name: command}))
        return
    [said] = arguments
    asked, _, question = said.removeprefix("Use ").partition(": ")
    sys.stdout.write(asyncio.run(answer(json.loads(kept.read_text())[asked], question)) + "\n")


async def answer(command: list[str], question: str) -> str:
    """What the tool `search` of a server answers."""
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with Client(server) as client:
        answered = await client.call_tool("search", {"query": question})
        [content] = answered.content
        assert not answered.is_error
        assert content.type == "text", content
        return content.text


if __name__ == "__main__":
    main(sys.argv[1:])
