"""All verbs of users, in the order in which the help lists them."""

from __future__ import annotations

from api.cli.find_verbs import estimate, grep, index, search, symbols
from api.cli.stack_verbs import completion, doctor, down
from api.cli.tool_verbs import cancel, delete, files, models, reindex, retry, status, tools

VERBS = (
    index,
    estimate,
    search,
    grep,
    symbols,
    status,
    files,
    tools,
    reindex,
    retry,
    cancel,
    delete,
    models,
    doctor,
    down,
    completion,
)
