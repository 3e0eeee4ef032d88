"""The command acts for whom `--as` names, and a status tells of rules with access lists that match no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.commanding import Done, foldex, refused
from tests.integration.test_acl_of_searches import Project, project_in
from tests.service import TOOLS, Service, checked, eventually
from tests.shared_service import SharedService, local_settings
from worker.state.access import keys
from worker.state.pool import open_pool

BOB = "user:bob, the first"


@pytest.fixture(scope="module")
def guarded(shared_service: SharedService, shared_root: Path) -> Service:
    return shared_service.get({**local_settings(shared_root), "AUTH": "on"})


@pytest.fixture(scope="module")
def project(guarded: Service) -> Project:
    made = project_in(guarded)
    made.make("open.md", "# Orchard\n\nThe kestrel of the orchard.\n")
    made.make("hidden.md", "# Wages\n\nThe kestrel earns gold.\n", acl=[BOB])
    made.index()
    return made


VERBS = [("search", "kestrel"), ("grep", "kestrel"), ("files",)]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_verb_shows_what_those_read_for_whom_it_acts(project: Project, verb: tuple[str, ...]) -> None:
    def said(*principals: str) -> Done:
        named = [part for each in principals for part in ("--as", each)]
        return foldex(project.service, *verb, project.tool, "--key", project.keys["gateway"], *named)

    for others in ((), ("",), ("user:ann",), ("user:bob", "user: the first")):
        done = said(*others)
        assert ("open.md" in done.stdout, "hidden" in done.stdout) == (True, False), (others, done)
    for able in ((BOB,), ("group:x", BOB), (BOB, "")):
        done = said(*able)
        assert ("open.md" in done.stdout, "hidden.md" in done.stdout) == (True, True), (able, done)
    assert "--as cannot be used" in refused(said("bob"))
    with open_pool(project.service.database_url) as pool:
        plain = keys.create(pool, project.name, "plain", ("search",))[1]
    told = refused(foldex(project.service, *verb, project.tool, "--key", plain, "--as", BOB))
    assert "`impersonate`" in told


def test_a_status_names_rules_that_match_no_file(project: Project) -> None:
    with open_pool(project.service.database_url) as pool:
        reader = keys.create(pool, project.name, "reader", ("search",))[1]
    rules = [
        {"path": "*.md", "set": {"team": "red"}},
        {"path": "hr/**", "acl": ["group:hr"]},
        {"path": "Hidden.md", "set": {"team": "blue"}},
        {"path": "caf\u00e9.md", "acl": ["*"]},
    ]

    def status(key: str | None = None) -> str | None:
        headers = {"Authorization": f"Bearer {key or project.keys['gateway']}"}
        answer = project.service.client.get(f"{TOOLS}/{project.tool}/status", headers=headers)
        warning: str | None = checked(answer, 200)["warning"]
        return warning

    def configure(rules: object) -> None:
        body = {"config": {"rules": rules}}
        checked(project.call("PATCH", f"{TOOLS}/{project.tool}", None, json=body), 202)

    assert status() is None
    project.make("cafe\u0301.md", "# Accent\n\nAn accent.\n")
    project.call("POST", f"{TOOLS}/{project.tool}/reindex", None)
    project.wait()
    configure(rules)
    told = "matches config.rules 'hr/**', 'Hidden.md'; correct or remove that, as it sets and hides nothing."
    # a thread looks, for which a status waits a moment only
    eventually(lambda: (status() or "").endswith(told), 20)
    assert (status(project.keys["all"]) or "").endswith(told)
    # rules name folders, so who may not change them is not told
    assert status(reader) is None
    configure([*rules, *({"path": f"gone/{number}{'x' * 100}", "set": {"n": number}} for number in range(9))])
    eventually(lambda: "and 8 more; " in (status() or ""), 20)
    assert len(status() or "") < 400
    configure(rules[:1])
    eventually(lambda: status() is None, 20)
    configure(rules[1:2])
    eventually(lambda: "'hr/**'" in (status() or ""), 20)
    project.make("hr", "")
    project.make("hr/wages.md", "# Wages\n\nWages.\n")
    project.call("POST", f"{TOOLS}/{project.tool}/reindex", None)
    project.wait()
    eventually(lambda: status() is None, 20)
    configure([])
