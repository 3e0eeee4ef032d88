"""The programs that start `foldex mcp` for an agent, by the configuration files that their documentation names."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from api.cli.invocation import VerbFailed
from api.cli.service.tool_lookup import indexable_place
from api.cli.terminal.configured_text import Entry, Unchangeable, json_with, toml_with
from api.stack.record import installation_home

#: The name of the server in each file.
SERVER = "foldex"
#: Attempts to write a file that its program changes meanwhile.
ATTEMPTS = 3

With = Callable[[str, str, str, Entry | None], str]


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts servers. `section` is the object or table of its file that holds them."""

    id: str
    name: str
    file: Path
    section: str
    #: What exists where the program is installed.
    trace: Path
    change: With = json_with
    #: Fields that its entries have besides command, arguments and environment.
    fields: Entry = field(default_factory=dict)
    program: str = ""

    @property
    def is_found(self) -> bool:
        """Whether the program seems to be installed."""
        return self.trace.exists() or bool(self.program and shutil.which(self.program))

    def entry(self, server: Entry) -> Entry:
        """The entry of a server in the file."""
        return {**server, **self.fields}

    def text_with(self, text: str, entry: Entry | None) -> str:
        """The file's text with the entry, or without. Raises `VerbFailed`."""
        try:
            return self.change(text, self.section, SERVER, entry)
        except Unchangeable as error:
            remedy = f"change it by hand as `foldex mcp install --print {self.id}` shows"
            raise VerbFailed(f"{self.file} cannot be changed safely; {remedy}.") from error

    def read(self) -> str:
        """The file's text; "" if there is none. Raises `VerbFailed`."""
        try:
            return self.file.read_bytes().decode()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise VerbFailed(f"{self.file} cannot be read ({reason}); repair it, or name other clients.") from error

    def write(self, entry: Entry | None) -> None:
        """Put the entry into the file, or take it out, at once or not at all. Raises `VerbFailed`."""
        for _ in range(ATTEMPTS):
            before = self.read()
            if _replace(self.file, self.text_with(before, entry), partial(self._is_still, before)):
                return
        raise VerbFailed(f"{self.file} is being changed by {self.name}; close it, and try again.")

    def _is_still(self, text: str) -> bool:
        return self.read() == text


def clients() -> Iterator[Client]:
    """All that are known."""
    home = Path.home()
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    applications = home / "Library" / "Application Support" if sys.platform == "darwin" else settings
    servers, claude, code = "mcpServers", applications / "Claude", applications / "Code" / "User"
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    stdio = {"type": "stdio"}
    # the first start of Foldex takes longer than these wait by default
    patient_codex, patient_gemini = {"startup_timeout_sec": 60, "tool_timeout_sec": 300}, {"timeout": 300_000}
    yield Client(
        "claude-code", "Claude Code", home / ".claude.json", servers, home / ".claude", fields=stdio, program="claude"
    )
    yield Client("claude-desktop", "Claude Desktop", claude / "claude_desktop_config.json", servers, claude)
    yield Client("cursor", "Cursor", home / ".cursor" / "mcp.json", servers, home / ".cursor", program="cursor")
    yield Client("vscode", "VS Code", code / "mcp.json", "servers", code, fields=stdio, program="code")
    yield Client("codex", "Codex", codex / "config.toml", "mcp_servers", codex, toml_with, patient_codex, "codex")
    yield Client(
        "gemini",
        "Gemini CLI",
        home / ".gemini" / "settings.json",
        servers,
        home / ".gemini",
        fields=patient_gemini,
        program="gemini",
    )
    yield Client("zed", "Zed", settings / "zed" / "settings.json", "context_servers", settings / "zed", program="zed")


def server(folders: tuple[str, ...]) -> Entry:
    """The entry that starts the server. Clients know neither the shell's search path nor the working directory."""
    beside = Path(sys.executable).with_name("foldex")
    command = [str(beside)] if beside.is_file() else [sys.executable, "-m", "foldex"]
    return {
        "command": command[0],
        "args": [*command[1:], "mcp", *(indexable_place(folder, is_here=True) for folder in folders)],
        "env": {"FOLDEX_HOME": str(installation_home())},
    }


def _replace(file: Path, text: str, is_unchanged: Callable[[], bool]) -> bool:
    """Replace a file, unless it has changed. A link stays, and so do the permissions."""
    real = Path(os.path.realpath(file))
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
        try:
            with os.fdopen(handle, "wb") as new:
                new.write(text.encode())
                new.flush()
                os.fsync(new.fileno())
            with suppress(FileNotFoundError):
                shutil.copymode(real, name)
            if not is_unchanged():
                return False
            os.replace(name, real)  # noqa: PTH105 - both are strings of the same folder
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108 - as above
    except OSError as error:
        raise VerbFailed(f"{file} cannot be written ({error.strerror}); repair that, or name other clients.") from error
    return True
