"""A client of Foldex: create search tools over folders, and ask them.

    with Foldex("http://127.0.0.1:8000") as foldex:
        tool = foldex.tools.create("project-1", path="/srv/docs")
        for hit in foldex.tools.search(tool, "who signs the tokens?").results:
            print(hit.file_path, hit.start_line)

`AsyncFoldex` has the same calls, to be awaited. `foldex_client.errors` and `foldex_client.models` hold all errors and
answers.
"""

from foldex_client.client import AsyncFoldex, Foldex
from foldex_client.errors import ConnectionFailed, FoldexError, IndexingFailed, NotFound, WaitTimedOut
from foldex_client.models import Context, Filters, Hit, Status, Tool, ToolConfig
from foldex_client.version import __version__

__all__ = [
    "AsyncFoldex",
    "ConnectionFailed",
    "Context",
    "Filters",
    "Foldex",
    "FoldexError",
    "Hit",
    "IndexingFailed",
    "NotFound",
    "Status",
    "Tool",
    "ToolConfig",
    "WaitTimedOut",
    "__version__",
]
