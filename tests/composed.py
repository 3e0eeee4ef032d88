"""What deploy/compose.yaml gives its services, resolved as compose does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[1] / "deploy" / "compose.yaml"
TEXT = FILE.read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
#: Services that run the image of Foldex.
OURS = {"api", "worker-bulk", "worker-fast", "beat", "watch", "flower"}
#: Variables that compose demands.
REQUIRED = set(re.findall(r"\$\{(\w+):\?", TEXT))


def resolved(text: str, given: Mapping[str, str]) -> str:
    """A value with its variables replaced: `${A:?}` must be given, `${A:-b}` has a default, `$$` is a dollar sign."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[2] == ":?":
            return given[match[1]]
        return given.get(match[1]) or match[3]

    return re.sub(r"\$\$|\$\{(\w+)(:[-?])([^}]*)\}", value, text)


def environment_of(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a service."""
    return {key: resolved(str(value), given) for key, value in SERVICES[name]["environment"].items()}


def command_of(command: str | list[str]) -> list[str]:
    """The words of a service's command, or of its healthcheck, as the container runs them."""
    if isinstance(command, str):
        return [resolved(word, {}) for word in shlex.split(command)]
    kind, *rest = command
    if kind == "CMD-SHELL":
        return ["/bin/sh", "-c", resolved(rest[0], {})]
    return [resolved(word, {}) for word in (rest if kind == "CMD" else command)]
