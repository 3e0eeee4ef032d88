"""Writes docs/agent.svg, a session of an agent: `python -m docs.agent_picture FOLDER`, with that folder indexed."""

from __future__ import annotations

import asyncio
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).with_name("agent.svg")
#: Characters of a line.
WIDTH = 118
#: What the agent asks. Arguments are shown as they are sent.
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": "the body of a request is too large or arrives too slowly", "top_k": 2, "max_tokens": 600}),
    ("callers", {"name": "_too_large"}),
    ("read_file", {"file": "http/middleware.py", "first_line": 241, "last_line": 245}),
    ("search", {"query": "x", "folder": "nowhere"}),
)


async def draw(folder: Path) -> None:
    """Ask, and write the picture."""
    server = StdioServerParameters(
        command=str(Path(sys.executable).with_name("foldex")), args=["mcp"], cwd=folder, env=dict(os.environ)
    )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
    async with Client(server) as client:
        for name, arguments in CALLS:
            answer = await client.call_tool(name, arguments)
            asked = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            console.print(Text(f"> {name}({asked})", style="bold cyan"))
            [content] = answer.content
            text = content.text if content.type == "text" else ""
            # the picture must not tell where it was made
            text = text.replace(str(folder.parent), "/home/ann/foldex")
            console.print(Text(text, style="red" if answer.is_error else ""), "")
    picture = console.export_svg(title="foldex mcp")
    # it would load a font from the network
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1]).resolve()))
