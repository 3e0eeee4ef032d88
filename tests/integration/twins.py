"""Two projects that are equal, but that one also holds files which its callers may not see; and all calls of them.

The calls are generated from the OpenAPI document, and from the schemas of the tools of agents: a parameter whose values
are not known here fails the walk, so that no new route, and no new way to ask, goes untried.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.integration.test_keys import foldex
from tests.integration.test_tenants import filled
from tests.service import TOOLS, Service, checked, eventually

Json = Any
#: Is in each text of what is hidden, and nowhere else.
SECRET = "moonstone"
#: Is in each text, name and id of what is hidden, in some case, and nowhere else.
CANARY = "zanzibar"
#: Only members of it read what is hidden.
GROUP = "group:clerks"
PATHS = "open", "cellar", f"cellar/{CANARY}.py", "open/ledger.py"
VISIBLE = {
    "open/ledger.py": "def ledger(page):\n    return entry(page)\n\n\ndef entry(page):\n    return page.strip()\n",
    "open/notes.md": "# Tides\n\nThe ledger of tides is written at noon, when the harbour sleeps.\n",
    "open/table.json": '{"tides": {"noon": 3}}',
    "twice.md": "# Twice\n\nThe same words about the ledger stand in two places of this folder.\n",
}
HIDDEN = {
    # a folder with a list, a file with one of its own, and what is like files that all may see
    f"cellar/{CANARY}.py": f"from open.ledger import ledger\n\n\ndef {CANARY}_sum({SECRET}):\n    return ledger(0)\n",
    f"cellar/{CANARY}.rb": f"def {CANARY}_rows  # {SECRET}\n  ledger\nend\n",
    f"cellar/{CANARY}.md": f"# Tides of {CANARY}\n\nThe ledger of tides at {CANARY} is of {SECRET}.\n",
    "cellar/twice.md": VISIBLE["twice.md"],
    f"cellar/{CANARY}.json": f'{{"{CANARY}": {{"noon": 4, "stone": "{SECRET}"}}}}',
    f"cellar/{CANARY}.html": f'<html lang="sw"><title>{CANARY}</title><body><p>Ledger of {CANARY} {SECRET}.</p></html>',
    f"cellar/{CANARY}.bin": f"\0\1{CANARY} {SECRET}",
    f"{CANARY}-of-ann.md": f"# Ann\n\nWhat ann wrote about the ledger of {CANARY} and {SECRET}.\n",
}
TEAM = {"metadata": {"team": "string"}}
WORDS = ["ledger", CANARY]
NAMES = ["ledger", f"{CANARY}_sum", f"{CANARY}_rows"]
IDS = ["{hidden_file}", "{visible_file}"]
CODE = ["python", "ruby", "html"]
#: Values of parameters and fields that are no numbers, booleans or enumerations, by name.
VALUES: dict[str, list[Json]] = {
    "project_id": ["{project_id}"],
    "tool_id": ["{tool_id}"],
    "tool_ids": [["{tool_id}"], ["{tool_id}", "{local_id}"]],
    "file_id": IDS,
    "file_ids": [[each] for each in IDS] + [["{hidden_node}"]],
    "chunk_id": ["{hidden_chunk}", "{visible_chunk}"],
    "node_id": ["{hidden_node}", "{hidden_folder}", "open", "ledger.py"],
    # of a run that has ended
    "task_id": ["0b6f1c52-7d2b-4a0e-9b3e-1f5d2c8a7e40"],
    "parent_id": ["{hidden_folder}", "open", "top"],
    "parent": ["{hidden_chunk}", "{visible_chunk}", "{hidden_summary}"],
    "q": [*WORDS, "cellar"],
    "query": [*WORDS, "who keeps the ledger of tides", f'"ledger of {CANARY}"'],
    "queries": [WORDS],
    "name": NAMES,
    "kind": ["function"],
    "prefix": ["l", CANARY[:3]],
    "pattern": [*WORDS, "le.ger"],
    "scope": ["ledger", f"{CANARY}_sum"],
    "symbol": NAMES,
    "symbols": [[each] for each in NAMES],
    "path": [*PATHS, "**/*.rb", "nowhere", "{place}", "{place}/cellar"],
    "paths": [
        *([place] for place in ("{place}", "{place}/cellar", "{place}/open", "/top", "/top/open")),
        *([place] for place in ("/top/cellar", f"/top/{CANARY}-cellar", f"/top/cellar/{CANARY}.md", "/top/nowhere")),
    ],
    "glob": ["*.py", f"{CANARY}*"],
    "types": [[each] for each in CODE],
    "languages": [[each] for each in CODE],
    "node_types": [["function"], ["method"]],
    "pointer": ["/tides", f"/{CANARY}"],
    "json_pointer": ["/tides", f"/{CANARY}"],
    "metadata": [{"team": "red"}, {"team": CANARY}, {"team": {"exists": True}}, {"none": 1}],
    "modified_after": ["2020-01-01"],
    "modified_before": ["2020-01-01", "2099-01-01"],
    "fields": [["file_path", "score"]],
    "min_score": [0.2],
    "folder": ["{tool_id}", None],
    "file": ["open/ledger.py", f"cellar/{CANARY}.md", "{hidden_node}"],
    "text": WORDS,
    "id": ["{hidden_node}", None],
    "type": ["text", "folder"],
    "content": [f"Words of {CANARY}."],
    "url": ["https://example.org/ledger"],
    # what is hidden stays so
    "acl": [[GROUP], [], ["!group:interns"]],
    "files": [[["files", ["note.md", "# Note\n"]], ["files", [f"cellar/{CANARY}.md", "# Note\n"]]]],
    "source": [{"kind": "local", "path": "{place}"}, {"kind": "local", "path": "{place}/cellar"}],
    "config": [{"watch": False}, {"metadata": {"team": "int"}}],
    "key_id": ["00000000-0000-4000-8000-000000000000"],
    "scopes": [["search"]],
    "expires": ["1h"],
    "overlap": ["1h"],
    "link": ["none"],
    "wait_seconds": [30],
}
#: Fields whose values are given as a whole, whatever their schema has.
WHOLE = {"source", "config", "files", "acl", "content", "scopes"}
#: Fields that stand in the place of another one.
INSTEAD = {"queries": "query", "source": "node_id"}
#: Fields that walk on from an answer, or change nothing of what it may show.
LEFT_OUT = {"cursor", "fresh", "structured", "check", "rerank", "more", "max_tokens"}
#: What each call of an operation has if it must have something.
ALWAYS: dict[str, dict[str, Json]] = {
    "search_project": {"project_id": "{project_id}", "tool_ids": ["{tool_id}"]},
    "create_tool": {"project_id": "{project_id}", "node_id": "top"},
    "create_node": {"name": "new", "type": "text", "content": "New."},
}
#: What differs between equal projects. Which file paid for a text that another one has too is chance.
VARYING = {
    "score", "scores", "explain", "confidence", "timings", "created_at", "updated_at", "started_at", "finished_at",
    "searchable_at", "last_build_time", "mtime_ms", "unseen_seconds", "clock_seconds", "seconds", "ms", "took_ms",
    "embedded_chunks", "ask", "attempts", "last_used_at", "namespace", "next_cursor", "processes", "findings",
}  # fmt: skip # a line each says nothing
UUID_ = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|h\.[0-9a-f]{32}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)|\d+(\.\d+)? (ms|s|seconds)\b|\b[01]\.\d+\b")


@dataclass(frozen=True)
class Call:
    """One way to call an operation."""

    method: str
    path: str
    operation: str
    sent: dict[str, Json] = field(default_factory=dict)


@dataclass(frozen=True)
class Twin:
    """A project of a service, and what its parts are called."""

    running: Service
    project: str
    ids: Mapping[str, str]
    #: The ids of hidden files, and of what was made of them.
    secrets: frozenset[str] = frozenset()

    def ask(self, call: Call, key: str, **headers: str) -> httpx.Response:
        sent = filled(call.sent, dict(self.ids))
        if "files" in sent.get("data", {}):
            sent["files"] = [(field, tuple(file)) for field, file in sent["data"].pop("files")]
            texts = {name: each if isinstance(each, str) else json.dumps(each) for name, each in sent["data"].items()}
            sent["data"] = texts
        if isinstance(sent.get("params", {}).get("metadata"), dict):
            sent["params"]["metadata"] = json.dumps(sent["params"]["metadata"])
        given = {"Authorization": f"Bearer {key}", **headers, **sent.pop("headers", {})}
        return self.running.client.request(call.method, filled(call.path, dict(self.ids)), headers=given, **sent)

    def key(self, *scopes: str) -> str:
        asked = [part for scope in scopes for part in ("--scope", scope)]
        made = foldex(self.running, "keys", "create", self.project, *asked)
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def told(self, call: Call, key: str, **headers: str) -> str:
        return self.as_text(self.ask(call, key, **headers))

    def as_text(self, answer: httpx.Response) -> str:
        """The answer without what differs between equal projects."""
        text = json.dumps(stable(_value(answer)), sort_keys=True, indent=1)
        return f"{answer.status_code} {plain(text.replace(self.project, 'project'))}"


def _value(answer: httpx.Response) -> Json:
    """What an answer holds: JSON, a stream of it, or lines."""
    kind = answer.headers.get("content-type", "")
    if kind.startswith("text/event-stream"):
        return [json.loads(line.removeprefix("data:")) for line in answer.text.splitlines() if line.startswith("data:")]
    return answer.json() if kind.partition(";")[0].endswith("json") else answer.text


def plain(text: str) -> str:
    return TIME.sub("time", UUID_.sub("uuid", text))


def stable(value: Json) -> Json:
    """A value of JSON without scores and times, and with its lists in an order of their own."""
    if isinstance(value, dict):
        return {name: stable(inner) for name, inner in value.items() if name not in VARYING}
    if isinstance(value, list):
        return sorted(map(stable, value), key=lambda each: plain(json.dumps(each, sort_keys=True)))
    # hits in words, in any order
    return sorted(value.splitlines()) if isinstance(value, str) and "\n" in value else value


def calls(document: dict[str, Json], scope: str) -> Iterator[Call]:
    """Every way to call the operations of a scope: with each value of each parameter and field on its own."""
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            needed = described.get("security", [{}])[0].get("bearer", [])
            if needed == [scope]:
                yield from _ways(document, method.upper(), path, described)


def _ways(document: dict[str, Json], method: str, path: str, described: dict[str, Json]) -> Iterator[Call]:
    operation = described["operationId"]
    named = {each["name"]: each for each in described.get("parameters", [])}
    in_path = {name: each for name, each in named.items() if each["in"] == "path"}
    asked = {name: each["schema"] for name, each in named.items() if each["in"] == "query"}
    required = {name for name, each in named.items() if each.get("required") and name not in in_path}
    where = "params"
    for kind, content in described.get("requestBody", {}).get("content", {}).items():
        schema = resolved(document, content["schema"])
        asked |= schema.get("properties", {})
        required |= set(schema.get("required", ()))
        where = "json" if kind == "application/json" else "data"
    for place in _places(path, in_path):
        for sent in ways(document, asked, required, ALWAYS.get(operation, {})):
            yield Call(method, place, operation, {where: sent} if sent else {})


def _places(path: str, in_path: Mapping[str, Json]) -> list[str]:
    """The path with each value of its parameters."""
    places = [path]
    for name in in_path:
        values = ["{tool_id}", "{local_id}"] if name == "tool_id" else VALUES[name]
        places = [place.replace(f"{{{name}}}", "\0" + str(value)[1:] if str(value)[0] == "{" else str(value))
                  for place in places for value in values]  # fmt: skip
    return [place.replace("\0", "{") for place in places]


def ways(
    document: dict[str, Json], asked: Mapping[str, Json], required: set[str], always: Mapping[str, Json]
) -> Iterator[dict[str, Json]]:
    """What is sent: what is required, with each value of each further field."""
    least = dict(always)
    if "queries" in asked and "query" in asked:
        least["query"] = VALUES["query"][0]
    if "pattern" in asked:
        least["pattern"] = VALUES["pattern"][0]
    for name in required - set(least):
        least[name] = values_of(document, name, asked[name])[0]
    yield least
    for name, schema in asked.items():
        for value in values_of(document, name, schema) if name not in LEFT_OUT else ():
            yield {**{key: one for key, one in least.items() if key != INSTEAD.get(name)}, name: value}


def values_of(document: dict[str, Json], name: str, schema: dict[str, Json]) -> list[Json]:
    """The values of a field that are tried."""
    if name in WHOLE:
        return VALUES[name]
    schema = resolved(document, schema)
    options = [resolved(document, each) for each in schema.get("anyOf", [schema])]
    found = list(chain.from_iterable(_of_schema(document, each) for each in options)) or VALUES.get(name, [])
    assert found, f"say in tests/integration/twins.py which values of {name!r} are to be tried: {schema}"
    return found


def _of_schema(document: dict[str, Json], schema: dict[str, Json]) -> list[Json]:
    if "enum" in schema:
        return list(schema["enum"])
    if "const" in schema:
        return [schema["const"]]
    if schema.get("type") == "boolean":
        return [True]
    if schema.get("type") == "integer":
        return [max(1, schema.get("minimum", 1))]
    if schema.get("properties"):
        return [
            {name: value} for name, inner in schema["properties"].items() for value in values_of(document, name, inner)
        ]
    return []


def resolved(document: dict[str, Json], schema: dict[str, Json]) -> dict[str, Json]:
    """A schema without references."""
    if "allOf" in schema and len(schema["allOf"]) == 1:
        schema = schema["allOf"][0]
    while "$ref" in schema:
        holder: Json = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            holder = holder[part]
        schema = holder
    return schema


def new_twin(running: Service, root: Path, *, has_hidden: bool) -> Twin:
    """A project with a tool over nodes and one over a local folder, both with files that only clerks may read."""
    project = f"p{uuid4().hex}"
    made = foldex(running, "keys", "create", project, "--scope", "admin", "--scope", "all_documents")
    admin = {"Authorization": f"Bearer {made.stdout.strip()}"}
    files = {**VISIBLE, **(HIDDEN if has_hidden else {})}
    place = root / project
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    assert foldex(running, "grants", "add", project, str(place)).returncode == 0
    for node in nodes(files, has_hidden=has_hidden):
        checked(running.client.post(f"/api/projects/{project}/nodes", json=node, headers=admin), 201)
    rules = [{"path": "cellar/**", "acl": [GROUP]}, {"path": f"{CANARY}*", "acl": [GROUP]}]
    bodies: dict[str, dict[str, Json]] = {
        "tool_id": {"node_id": "top", "config": {**TEAM, "raptor": {"enabled": True, "cluster_method": "adjacent"}}},
        "local_id": {"source": {"kind": "local", "path": str(place)}, "config": {**TEAM, "rules": rules}},
    }
    ids = {"project_id": project, "place": str(place)}
    for name, body in bodies.items():
        sent = {**body, "project_id": project, "name": name}
        ids[name] = checked(running.client.post(TOOLS, json=sent, headers=admin), 202)["tool_id"]

    def is_ready(name: str, part: str, field_: str, value: Json) -> bool:
        state = running.client.get(f"{TOOLS}/{ids[name]}/{part}", headers=admin).json()
        return bool(state[field_] == value)

    for name in bodies:
        eventually(lambda name=name: is_ready(name, "status", "status", "ready"), 90, running.logs)  # type: ignore[misc] # mypy takes no default for a function without arguments
    eventually(lambda: is_ready("tool_id", "raptor/status", "has_index", True), 90, running.logs)
    secrets = frozenset(chain.from_iterable(_hidden_ids(running, ids[name], admin) for name in bodies))
    parts = _parts(running, ids["tool_id"], admin, has_hidden=has_hidden)
    return Twin(running, project, {**ids, **parts}, secrets)


def nodes(files: Mapping[str, str], *, has_hidden: bool) -> Iterator[dict[str, Json]]:
    """The nodes of a project, each after its folder. Both projects have lists."""
    folders = {"": "top", "open": "open", "cellar": f"{CANARY}-cellar"}
    yield {"id": "top", "name": "top", "type": "folder"}
    yield {"id": "open", "name": "open", "parent_id": "top", "type": "folder", "acl": ["*"]}
    if has_hidden:
        yield {"id": folders["cellar"], "name": "cellar", "parent_id": "top", "type": "folder", "acl": [GROUP]}
    for path, text in files.items():
        folder, _, name = path.rpartition("/")
        is_hidden = path in HIDDEN
        node: dict[str, Json] = {
            "id": f"{CANARY}-{name}" if is_hidden else name,
            "name": name,
            "parent_id": folders[folder],
        }
        kind = {"py": "code", "rb": "code", "md": "markdown"}.get(name.rpartition(".")[2], "text")
        node |= {"type": kind, "content": text, "metadata": {"team": CANARY if is_hidden else "red"}}
        # one list is of the file itself, and denies somebody who is named before
        own = {"acl": ["group:visitors", "!group:visitors", GROUP]} if is_hidden and not folder else {}
        yield {**node, **own}


def _parts(running: Service, tool: str, admin: dict[str, str], *, has_hidden: bool) -> dict[str, str]:
    """The ids of a visible and a hidden file of a tool, and of their chunks; random ones where nothing is hidden."""
    files = running.client.get(f"{TOOLS}/{tool}/files", headers=admin).json()["items"]
    ids = {"hidden_node": f"{CANARY}-{CANARY}.py", "hidden_folder": f"{CANARY}-cellar"}
    ids |= {name: str(uuid4()) for name in ("hidden_file", "hidden_chunk", "hidden_summary")}
    paths = {"visible": "open/ledger.py", **({"hidden": f"cellar/{CANARY}.py"} if has_hidden else {})}
    for name, path in paths.items():
        (file,) = [each["file_id"] for each in files if each["file_path"].endswith(path)]
        chunks = running.client.get(f"{TOOLS}/{tool}/files/{file}/chunks", headers=admin).json()["items"]
        ids |= {f"{name}_file": file, f"{name}_chunk": chunks[0]["chunk_id"]}
    if has_hidden:
        summaries = running.client.get(f"{TOOLS}/{tool}/raptor/nodes", headers=admin).json()["items"]
        ids["hidden_summary"] = next(each["node_id"] for each in summaries if CANARY in str(each))
    return ids


def _hidden_ids(running: Service, tool: str, admin: dict[str, str]) -> Iterator[str]:
    """The ids of the hidden files of a tool, of their chunks, and of the summaries that say something of them."""
    client, place = running.client, f"{TOOLS}/{tool}"
    for file in client.get(f"{place}/files", headers=admin).json()["items"]:
        if CANARY in file["file_path"] or file["file_path"].startswith("cellar/"):
            yield file["file_id"]
            listed = client.get(f"{place}/files/{file['file_id']}/chunks", headers=admin).json()
            yield from (chunk["chunk_id"] for chunk in listed["items"])
    for summary in client.get(f"{place}/raptor/nodes", headers=admin).json().get("items", ()):
        if CANARY in str(summary):
            yield summary["node_id"]
