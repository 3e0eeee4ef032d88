"""Indexed folders and their files as resources: `foldex://folder/path#L10-L20`."""

from __future__ import annotations

import re
from collections import Counter
from urllib.parse import quote, unquote

from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from api.agents.access import CallRefused, ServiceAccess, name_of
from api.agents.find import ListFilesArguments, ReadFileArguments, list_files, read_file
from api.agents.tool import MAX_ANSWER_TOKENS
from foldex_client import Status

SCHEME = "foldex://"
#: Characters of an address, and folders that are listed.
MAX_ADDRESS, MAX_LISTED = 8192, 1000
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")

TEMPLATES = ListResourceTemplatesResult(
    resource_templates=[
        ResourceTemplate(
            name="file",
            uri_template="foldex://{folder}/{+path}",
            description="The text of a file of an indexed folder; #L10-L20 at its end gives some lines.",
            mime_type="text/plain",
        )
    ]
)


async def list_resources(access: ServiceAccess) -> ListResourcesResult:
    """The indexed folders, each under its name if no other has it."""
    tools = (await access.tools())[:MAX_LISTED]
    named = Counter(tool.name for tool in tools)
    listed = [
        Resource(
            name=tool.name,
            uri=f"{SCHEME}{quote(tool.name if named[tool.name] == 1 else tool.tool_id, safe='')}/",
            description=f"Files of {name_of(tool)}",
            mime_type="text/plain",
        )
        for tool in tools
    ]
    return ListResourcesResult(resources=listed)


async def read_resource(access: ServiceAccess, address: str) -> ReadResourceResult:
    """The text of a file or some of its lines, or the files of a folder. Raises `CallRefused`."""
    folder, path, first, last = parsed(address)
    if path:
        asked = ReadFileArguments.model_validate(
            {"file": path, "folder": folder, "first_line": first, "last_line": last, "max_tokens": MAX_ANSWER_TOKENS}
        )
        reply = await read_file(access, asked, _nobody_waits)
    else:
        listed = ListFilesArguments(folder=folder, max_tokens=MAX_ANSWER_TOKENS)
        reply = await list_files(access, listed, _nobody_waits)
    return ReadResourceResult(contents=[TextResourceContents(uri=address, mime_type="text/plain", text=reply.text)])


def parsed(address: str) -> tuple[str, str, int | None, int | None]:
    """Folder, path, first and last line of an address. Raises `CallRefused`."""
    place, _, lines = address.partition("#")
    folder, _, path = place.removeprefix(SCHEME).partition("/")
    found = _LINES.fullmatch(lines) if lines else None
    if len(address) > MAX_ADDRESS or not place.startswith(SCHEME) or not folder or (lines and not found):
        raise CallRefused("An address of a file is foldex://folder/path, with #L10 or #L10-L20 for some lines.")
    first = int(found[1]) if found else None
    last = int(found[2] or found[1]) if found else None
    return unquote(folder), unquote(path), first, last


async def _nobody_waits(_: Status) -> None:
    """Reading waits for no task."""
