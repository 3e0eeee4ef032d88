"""Callers who may not see some files are answered as in a project in which these files do not exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from api.agents import code, find, manage, search
from api.agents.tool import AgentTool
from api.identity.principals import HEADER
from tests.integration.test_tenants import CALLS
from tests.integration.twins import CANARY, GROUP, SECRET, Call, Twin, calls, new_twin, ways
from tests.service import NewService, Service, service
from worker.settings import LOCAL_LLM, LOCAL_MODEL

TOOLS: tuple[AgentTool[Any], ...] = (search.TOOL, *find.TOOLS, *code.TOOLS, *manage.TOOLS)
#: Show what was made of hidden files and others together: only what is shown is compared with what must not be.
MIXED = {"list_summaries"}
#: Whose answers tell nothing of files, whoever asks.
OF_NO_FILES = {"list_sources", "list_indexers", "list_models", "get_hosts"}
AGENTS_OF_NO_FILES = {
    "tools/list ",
    "prompts/list ",
    "resources/list ",
    "resources/templates/list ",
    "prompts/get answer",
    "tools/call list_folders",
}
#: That tell how much there is, and not what, and which rules there are.
TOTALS = {
    "list_statuses",
    "get_status",
    "list_tasks",
    "stream_events",
    "get_raptor",
    "estimate_raptor",
    "list_tools",
    "get_tool",
}
#: Callers who may not read what is hidden: nobody in particular, somebody, and who is denied.
CALLERS: tuple[dict[str, str], ...] = ({}, {HEADER: ""}, {HEADER: "user:eve,group:visitors"})


@pytest.fixture(scope="module")
def running(new_service: NewService, root: Path) -> Iterator[Service]:
    env = {"DEFAULT_EMBEDDING_MODEL": LOCAL_MODEL, "DEFAULT_LLM_MODEL": LOCAL_LLM, "AUTH": "on"}
    with new_service(partial(service), **env, LOCAL_SOURCE_ROOTS=str(root)) as started:
        yield started


@pytest.fixture(scope="module")
def both(running: Service, root: Path) -> tuple[Twin, Twin]:
    """The project with hidden files, and the one without."""
    whole, bare = (new_twin(running, root, has_hidden=each) for each in (True, False))
    return whole, bare


@pytest.fixture(scope="module")
def keys(both: tuple[Twin, Twin]) -> tuple[str, str]:
    """A key of each that acts for others."""
    whole, bare = (twin.key("search", "impersonate") for twin in both)
    return whole, bare


@pytest.fixture(scope="module")
def document(running: Service) -> dict[str, Any]:
    return running.get("/openapi.json")


def numbered(all_: Iterable[Call]) -> Iterator[tuple[Call, int]]:
    return ((call, number) for number, call in enumerate(all_))


def is_mixed(call: Call) -> bool:
    """Whether an answer may be made of a tree, which has other summaries where files are hidden."""
    sent = call.sent.get("json", {})
    arguments = sent.get("params", {}).get("arguments", sent)
    return call.operation in MIXED or arguments.get("tree", "off") != "off"


def tells(call: Call) -> bool:
    """Whether a call names what is hidden itself, so that an answer may repeat it."""
    said = f"{call.path} {call.sent}"
    return CANARY in said or "hidden" in said or "cellar" in said


def leaks(twin: Twin, text: str) -> list[str]:
    """What of hidden files an answer shows."""
    return [each for each in (CANARY, SECRET, "clerks", *twin.secrets) if each in text.lower()]


def wrong(both: tuple[Twin, Twin], keys: tuple[str, str], call: Call, number: int) -> str | None:
    """What an answer says of hidden files; None if nothing. Callers take turns."""
    (whole, bare), caller = both, CALLERS[number % len(CALLERS)]
    first, second = whole.ask(call, keys[0], **caller), bare.ask(call, keys[1], **caller)
    shown = [] if tells(call) else leaks(whole, first.text)
    if shown:
        return f"{call}: shows {shown}: {first.text[:1500]}"
    texts = whole.as_text(first), bare.as_text(second)
    if texts[0] == texts[1] or (is_mixed(call) and not tells(call)):
        return None
    return f"{call}:\n" + "\n".join(
        difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm="", n=1)
    )


@pytest.mark.parametrize("route", CALLS, ids=" ".join)
def test_nothing_tells_of_what_is_hidden(
    both: tuple[Twin, Twin], keys: tuple[str, str], document: dict[str, Any], route: tuple[str, str]
) -> None:
    method, path = route
    only = {"paths": {path: {method.lower(): document["paths"][path][method.lower()]}}}
    found = [wrong(both, keys, *each) for each in numbered(calls({**document, **only}, "search"))]
    problems = [each for each in found if each]
    assert not problems, f"{len(problems)} of {len(found)}:\n" + "\n".join(problems)[:6000]


def tool_calls(scope: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every way to call the tools of agents: with each value of each argument on its own."""
    for tool in TOOLS:
        if tool.scope == scope:
            schema = tool.arguments.model_json_schema()
            required = {*schema.get("required", ())} | ({"folder"} & set(schema["properties"]))
            for sent in ways(schema, schema["properties"], required, {}):
                yield tool.name, sent


def asked_by_agent(method: str, **params: Any) -> Call:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    return Call("POST", "/mcp", f"{method} {params.get('name', '')}", {"json": body, "headers": headers})


AGENTS = [
    *(asked_by_agent("tools/call", name=name, arguments=sent) for name, sent in tool_calls("search")),
    *(asked_by_agent(f"{part}/list") for part in ("tools", "prompts", "resources", "resources/templates")),
    *(
        asked_by_agent("resources/read", uri=f"foldex://{{tool_id}}/{path}")
        for path in ("", "open/ledger.py", f"cellar/{CANARY}.py", f"cellar/{CANARY}.md#L1-L2", f"{CANARY}-of-ann.md")
    ),
    asked_by_agent("prompts/get", name="answer", arguments={"question": CANARY}),
]


def test_agents_are_told_nothing_of_what_is_hidden(both: tuple[Twin, Twin], keys: tuple[str, str]) -> None:
    problems = [said for each in numbered(AGENTS) if (said := wrong(both, keys, *each))]
    assert not problems, f"{len(problems)} of {len(AGENTS)}:\n" + "\n".join(problems)[:8000]


def shown(both: tuple[Twin, Twin], key: str, caller: dict[str, str], all_: Iterable[Call]) -> set[str]:
    """The operations that answer a caller otherwise than nobody in particular."""
    whole, _ = both
    nobodys, found = whole.key("search"), set[str]()
    for call in all_:
        if call.operation not in found and whole.told(call, key, **caller) != whole.told(call, nobodys):
            found.add(call.operation)
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("caller", [{}, {HEADER: GROUP}], ids=["all_documents", "clerk"])
def test_who_may_read_all_is_shown_what_others_are_not(
    both: tuple[Twin, Twin], document: dict[str, Any], caller: dict[str, str]
) -> None:
    """The calls reach what is hidden: each operation shows something of it to somebody."""
    key = both[0].key("search", "impersonate" if caller else "all_documents")
    # what tells of the key differs with it
    operations = {call.operation for call in calls(document, "search")} - {"get_access"}
    unseen = operations - shown(both, key, caller, calls(document, "search"))
    assert unseen == (OF_NO_FILES | TOTALS if caller else OF_NO_FILES)
    unseen_by_agents = {call.operation for call in AGENTS} - shown(both, key, caller, AGENTS)
    assert unseen_by_agents == AGENTS_OF_NO_FILES | ({"tools/call index_status"} if caller else set())


#: Operations that show all nodes, and all folders of tools, to who manages them.
OF_MANAGERS = {
    *("list_nodes", "get_node", "get_content", "create_node", "patch_node", "delete_node", "upload_files"),
    "list_places",
}
#: How the calls that change something follow each other: what they show before what they spoil.
LAST = (
    "tools/call index_folder",
    "create_tool",
    "delete_raptor",
    "tools/call delete_folder",
    "delete_tool",
    "upload_files",
    "create_node",
    "patch_node",
    "delete_node",
)
#: What differs while tasks run, and what tells of tools, which all see.
RUNNING = re.compile(
    r'\n *"Note: (?:The summary tree|No listed file).*|: (?:pending|indexing|ready)(?=, )'
    r'|\n *"(status|task|kind|rerun|listing|indexing_status|has_index|expected_\w+|done_\w+|last_\w+|warning'
    r'|task_id)": .*'
)


def reveals(call: Call) -> bool:
    """Whether a call would let all see what is hidden."""
    return call.operation == "patch_node" and "hidden_node" in call.path and "parent_id" in str(call.sent)


def in_turn(all_: Iterable[Call]) -> list[Call]:
    return sorted(all_, key=lambda call: LAST.index(call.operation) if call.operation in LAST else -1)


def shown_to_manager(both: tuple[Twin, Twin], keys: tuple[str, str], call: Call, number: int) -> str | None:
    """What an answer says of the texts of hidden files to who manages all nodes; None if nothing."""
    (whole, bare), caller = both, CALLERS[number % len(CALLERS)]
    first, second = whole.ask(call, keys[0], **caller), bare.ask(call, keys[1], **caller)
    looked_for = (SECRET,) if tells(call) else (SECRET, *whole.secrets)
    if found := [each for each in looked_for if each in first.text.lower()]:
        return f"{call}: shows {found}: {first.text[:1500]}"
    if first.status_code >= 500:
        return f"{call}: {first.text[:1500]}"
    if tells(call) or is_mixed(call) or call.operation in OF_MANAGERS:
        return None
    texts = [RUNNING.sub("", twin.as_text(answer)) for twin, answer in ((whole, first), (bare, second))]
    return (
        None
        if texts[0] == texts[1]
        else f"{call}:\n"
        + "\n".join(difflib.unified_diff(texts[0].splitlines(), texts[1].splitlines(), lineterm="", n=1))
    )


@pytest.fixture(scope="module")
def managed(running: Service, root: Path) -> tuple[Twin, Twin]:
    """Two more such projects, which the calls of this test change."""
    whole, bare = (new_twin(running, root, has_hidden=each) for each in (True, False))
    return whole, bare


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scope", ["search", "write", "admin"])
def test_who_manages_all_reads_no_text_that_is_hidden(
    managed: tuple[Twin, Twin], document: dict[str, Any], scope: str
) -> None:
    """Calls of every scope, by who may change what it may not read."""
    whole, bare = (twin.key("write" if scope == "search" else scope, "impersonate") for twin in managed)
    agents = [asked_by_agent("tools/call", name=name, arguments=sent) for name, sent in tool_calls(scope)]
    asked = [call for call in (*calls(document, scope), *agents) if not reveals(call)]
    problems = [said for each in numbered(in_turn(asked)) if (said := shown_to_manager(managed, (whole, bare), *each))]
    assert not problems, f"{len(problems)} of {len(asked)}:\n" + "\n".join(problems)[:8000]
