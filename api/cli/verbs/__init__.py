"""All verbs of users, in the order in which the help lists them."""

from __future__ import annotations

from api.cli.verbs.agents import mcp
from api.cli.verbs.ask import search
from api.cli.verbs.find import estimate, grep, index, outline, symbols
from api.cli.verbs.follow import callees, callers, impact
from api.cli.verbs.manage import cancel, delete, files, models, reindex, retry, status, tools
from api.cli.verbs.stack import completion, doctor, down, logs, open_page
from api.cli.verbs.tree import tree

VERBS = (
    index,
    estimate,
    search,
    grep,
    symbols,
    outline,
    callers,
    callees,
    impact,
    status,
    files,
    tools,
    reindex,
    retry,
    cancel,
    delete,
    tree,
    models,
    open_page,
    mcp,
    doctor,
    down,
    logs,
    completion,
)
