"""The services of deploy/systemd, resolved as systemd does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "deploy" / "systemd"
#: Applies to all units whose names begin with its own.
COMMON = FOLDER / "foldex-.service.d" / "common.conf"
UNITS = sorted(FOLDER.glob("*.service"))
#: Where the units expect what an installation has.
CHECKOUT, HOME, SETTINGS = "/opt/foldex", "/var/lib/foldex", "/etc/foldex/foldex.env"

Options = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True)
class Unit:
    """A service: what it runs, and the variables that the units set. The file of settings has precedence over them."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    options: Options


def read(path: Path) -> Unit:
    """A unit with what it has in common with the others. `%H` and `%m` stay as they are."""
    options = _options(path.read_text())
    for key, values in _options(COMMON.read_text()).items():
        options[key] = [*options.get(key, []), *values]
    env = dict(word.split("=", 1) for line in options["Environment"] for word in shlex.split(line))
    (command,) = options["ExecStart"]
    return Unit(path.stem, tuple(shlex.split(command)), env, options)


def _options(text: str) -> dict[str, list[str]]:
    """The options of a file by their names, with lines joined that end with a backslash."""
    options: dict[str, list[str]] = {}
    for line in text.replace("\\\n", " ").splitlines():
        key, equals, value = line.partition("=")
        if equals and re.fullmatch(r"[A-Z]\w+", key):
            options.setdefault(key, []).append(value)
    return options


def command_of(unit: Unit, env: Mapping[str, str], host: str, machine: str) -> list[str]:
    """The words of a service's command on a machine, with the variables that it expands."""
    specifiers = {"%H": host, "%m": machine, "%%": "%"}

    def word(text: str) -> str:
        text = re.sub(r"\$\{(\w+)\}", lambda found: env[found[1]], text)
        return re.sub("%[Hm%]", lambda found: specifiers[found[0]], text)

    return [word(text) for text in unit.command]
