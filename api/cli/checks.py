"""The checks of `foldex doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from api.agents.folders import BUCKET, root_of
from api.cli import hosts
from api.cli.check_outcome import CheckOutcome
from api.cli.invocation import Invocation, VerbFailed
from api.cli.service.connection import Connection, connect
from api.cli.service.tool_lookup import states_of, tools_of
from api.cli.terminal.output import counts
from api.stack.record import environment, installation_home
from schemas.content.source import FLOAT32

if TYPE_CHECKING:
    from foldex_client import Tool
    from worker.settings import Settings


#: Seconds in which the service must say that it is there. It does so at once, whatever it waits for.
HEALTH_SECONDS = 20.0


def examine(invocation: Invocation) -> Iterator[CheckOutcome]:
    """Check one thing after the other. What depends on something broken is not checked."""
    if invocation.server is None and os.environ.get("DATABASE_URL") and not environment(installation_home()):
        yield from hosts.of_this_machine()
        return
    try:
        with connect(invocation, patience=HEALTH_SECONDS) as service:
            service.foldex.health()
        with connect(invocation) as service:
            yield CheckOutcome("service", True, f"answers at {service.url}")
            yield from misspelt(service.home)
            yield from readiness(service)
            if service.home is not None:
                yield _broker(service.home)
                settings = settings_of(service.home)
                yield from grants_elsewhere(settings)
                yield from hosts.issuer(settings)
            tools = tools_of(service)
            yield CheckOutcome("key", True, "accepted" if invocation.key else "none is needed")
            yield from hosts.of_service(service)
            yield from _models(service, tools)
            yield from default_model(service, tools)
            yield from _folders(service, tools)
    except VerbFailed as error:
        yield CheckOutcome("service", False, error.message)


def misspelt(home: Path | None) -> Iterator[CheckOutcome]:
    """Variables of this shell that are nearly settings; `home` is set if the service is the stack that has them too."""
    from worker.settings import Settings

    for found in Settings.misspelt(os.environ) if home else ():
        yield CheckOutcome("settings", False, found)


def readiness(service: Connection) -> Iterator[CheckOutcome]:
    """Whether the database answers, and what the service warns its operator of."""
    from foldex_client import FoldexError

    try:
        ready = service.foldex.ready()
    except FoldexError as error:
        yield CheckOutcome("database", False, service.sentence(error))
        return
    yield CheckOutcome("database", True, "answers")
    # a check of its own tells more about the hosts
    warning = (ready.get("warning") or "").removesuffix(ready.get("hosts") or "").strip()
    if warning:
        yield CheckOutcome("health", False, warning)


def _broker(home: Path) -> CheckOutcome:
    import redis

    url = environment(home).get("REDIS_URL", "")
    try:
        with redis.Redis.from_url(url, socket_timeout=2) as connection:
            connection.ping()
    except (redis.RedisError, ValueError):
        return CheckOutcome("redis", False, f"does not answer; see {home / 'log' / 'redis.log'}, or run `foldex down`.")
    return CheckOutcome("redis", True, "answers")


def settings_of(home: Path) -> Settings:
    """The settings of the stack that runs in a directory."""
    from worker.settings import Settings

    stack = {name.lower(): value for name, value in environment(home).items()}
    return Settings.model_validate({name: stack[name] for name in Settings.model_fields.keys() & stack.keys()})


def grants_elsewhere(settings: Settings) -> Iterator[CheckOutcome]:
    """Granted folders whose path leads to another place by now, which their project may not read."""
    from worker.state.access.grants import find_led_elsewhere
    from worker.state.pool import open_pool

    if settings.auth == "off":
        return
    with open_pool(settings.database) as pool:
        for grant, now in find_led_elsewhere(pool):
            detail = f"it led to {grant.real_place}, and leads to {now} now, which this project may not read"
            names = f"{grant.project_id} {grant.place}"
            remedy = f"run `foldex grants add {names}` to let it, or `foldex grants remove {names}`."
            yield CheckOutcome(f"grant of {grant.place}", False, f"{detail}; {remedy}")


def _models(service: Connection, tools: list[Tool]) -> Iterator[CheckOutcome]:
    """Ask one tool of each model a question, for which the model must embed it."""
    from foldex_client import FoldexError

    by_model = {_name(tool): tool for tool in tools if tool.task == "ready"}
    for model, tool in by_model.items():
        try:
            service.foldex.tools.search(tool.tool_id, "foldex doctor", top_k=1, mode="vector")
        except FoldexError as error:
            yield CheckOutcome(f"model {model}", False, service.sentence(error))
        else:
            yield CheckOutcome(f"model {model}", True, "answers")


def default_model(service: Connection, tools: list[Tool]) -> Iterator[CheckOutcome]:
    """Ask the model of new tools for an answer, unless a tool that was asked has it."""
    asked = {tool.index.model for tool in tools if tool.task == "ready"}
    models = service.foldex.models().items
    if {each.model for each in models if each.default and each.kind == "embedding"} <= asked:
        return
    for each in service.foldex.models(check=True).items:
        if each.default and each.kind == "embedding" and each.check:
            yield CheckOutcome(f"model {each.model}", each.check.ok, each.check.detail or "answers")


def _name(tool: Tool) -> str:
    index = tool.index
    return index.model if index.precision == FLOAT32 else f"{index.model} ({index.precision})"


def _folders(service: Connection, tools: list[Tool]) -> Iterator[CheckOutcome]:
    for tool, now in states_of(service, tools):
        root = root_of(tool)
        what = f"folder {root or tool.name}"
        if service.is_here and root and not root.startswith(BUCKET) and not Path(root).is_dir():
            yield CheckOutcome(what, False, f"it is gone; put it back, or run `foldex delete {tool.tool_id}`.")
        elif now.status == "error":
            yield CheckOutcome(what, False, now.error or "indexing failed; run `foldex retry` with it.")
        else:
            failed = f"; see `foldex files {tool.tool_id} --failed`" if now.failed_files else ""
            yield CheckOutcome(what, True, now.warning or ", ".join(filter(None, (now.status, counts(now)))) + failed)
