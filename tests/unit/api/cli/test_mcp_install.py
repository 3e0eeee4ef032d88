"""`foldex mcp install` changes the files of the agents that it finds, after a yes, and `uninstall` undoes it."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from api.agents import find, manage, search
from api.cli import invocation, mcp_clients
from api.cli.commands import main
from api.cli.verbs.agents import CLIENTS

#: The file of each client on Linux, and where in it servers are.
FILES = {
    "claude-code": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}
SETTINGS = '// Zed\n{\n  "theme": "One Dark", // dark\n}\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with Cursor and Zed."""
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("FOLDEX_API_KEY", "a secret")
    monkeypatch.setenv("FOLDEX_HOME", str(tmp_path / "foldex"))
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".config" / "zed").mkdir(parents=True)
    (tmp_path / ".config" / "zed" / "settings.json").write_text(SETTINGS)
    return tmp_path


def mcp(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["mcp", *arguments], input=stdin)


def test_every_client_is_written_as_its_documentation_says(home: Path) -> None:
    assert set(FILES) == set(CLIENTS) == {client.id for client in mcp_clients.clients()}
    done = mcp("install", *CLIENTS, "--folder", str(home), "--yes")
    assert done.exit_code == 0, done.output
    for name, section in FILES.values():
        text = (home / name).read_text()
        if name.endswith("settings.json") and "zed" in name:
            text = text.replace("// Zed", "").replace(" // dark", "").replace(",\n}", "\n}")
        content = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
        entry = content[section]["foldex"]
        assert Path(entry["command"]).is_absolute()
        assert os.access(entry["command"], os.X_OK)
        assert entry["args"][-2:] == ["mcp", str(home)]
        assert entry["env"] == {"FOLDEX_HOME": str(home / "foldex")}
        assert "a secret" not in text
    assert mcp("uninstall", "--yes").exit_code == 0
    assert (home / ".config" / "zed" / "settings.json").read_text() == SETTINGS
    assert mcp("uninstall", "--yes").exit_code == 1


def test_only_what_is_found_is_written_and_once(home: Path) -> None:
    assert mcp("install", "--yes").exit_code == 0
    written = {name for name, _ in FILES.values() if (home / name).exists()}
    assert written == {".cursor/mcp.json", ".config/zed/settings.json"}
    before = (home / ".cursor" / "mcp.json").stat().st_ino
    # what is there already needs no yes
    assert mcp("install").exit_code == 0
    assert (home / ".cursor" / "mcp.json").stat().st_ino == before


def test_nothing_is_written_without_a_yes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--yes" in mcp("install").output
    monkeypatch.setattr(invocation, "has_terminal", lambda: True)
    done = mcp("install", stdin="n\n")
    assert (done.exit_code, str(home / ".cursor" / "mcp.json") in done.output) == (2, True)
    assert not (home / ".cursor" / "mcp.json").exists()
    assert mcp("install", stdin="\n").exit_code == 0
    assert mcp("uninstall", stdin="n\n").exit_code == 2
    assert "foldex" in (home / ".cursor" / "mcp.json").read_text()


def test_a_folder_that_is_not_there_is_refused(home: Path) -> None:
    done = mcp("install", "--folder", str(home / "gone"), "--yes")
    assert (done.exit_code, "does not exist" in done.output) == (2, True)
    assert not (home / ".cursor" / "mcp.json").exists()


def test_printing_writes_nothing(home: Path) -> None:
    done = mcp("install", "--print")
    assert done.output.count('"foldex": {') == 2
    assert "[mcp_servers.foldex]" in mcp("install", "--print", "codex").output
    assert not (home / ".cursor" / "mcp.json").exists()


def test_the_snippet_names_tools_that_exist(home: Path) -> None:
    named = set(re.findall(r"^- `(\w+)`", mcp("snippet").output, re.MULTILINE))
    assert named
    assert named <= {tool.name for tool in (search.TOOL, *find.TOOLS, *manage.TOOLS)}


@pytest.mark.parametrize("spoil", [
    lambda file: file.write_text("not json"),
    lambda file: file.write_bytes(b"\xff\xfe{}"),
    lambda file: file.mkdir(),
    lambda file: file.write_text('{"mcpServers": []}'),
])  # fmt: skip # a line each says nothing
def test_a_file_that_cannot_be_changed_stays(home: Path, spoil: Callable[[Path], object]) -> None:
    file = home / ".cursor" / "mcp.json"
    spoil(file)
    before = file.read_bytes() if file.is_file() else None
    done = mcp("install", "--yes")
    assert (done.exit_code, str(file) in done.output, done.output.count("\n")) == (2, True, 1)
    assert (file.read_bytes() if file.is_file() else None) == before
    # no other file is changed either
    assert (home / ".config" / "zed" / "settings.json").read_text() == SETTINGS


def test_a_link_stays_and_so_do_permissions(home: Path) -> None:
    kept = home / "dotfiles.json"
    kept.write_text("{}")
    kept.chmod(0o640)
    (home / ".cursor" / "mcp.json").symlink_to(kept)
    assert mcp("install", "cursor", "--yes").exit_code == 0
    assert (home / ".cursor" / "mcp.json").is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert "foldex" in kept.read_text()
    assert sorted(path.name for path in (home / ".cursor").iterdir()) == ["mcp.json"]


def test_what_a_client_writes_meanwhile_is_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = home / ".cursor" / "mcp.json"
    file.write_text("{}")
    copied, others = shutil.copymode, iter(range(2))

    def change(*arguments: Path) -> None:
        copied(*arguments)
        for number in others:
            file.write_text(json.dumps({"number": number}))
            break

    monkeypatch.setattr(shutil, "copymode", change)
    assert mcp("install", "cursor", "--yes").exit_code == 0
    content = json.loads(file.read_text())
    assert (content["number"], "foldex" in content["mcpServers"]) == (1, True)


def test_a_word_that_is_no_command_is_a_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[str, ...]] = []
    monkeypatch.setattr("api.cli.agents.serve", lambda _, folders, **__: served.append(folders))
    for arguments in ((), ("notes", "--allow-delete"), ("./install",), ("serve", "install")):
        assert mcp(*arguments).exit_code == 0
    assert served == [(), ("notes",), ("./install",), ("install",)]
    assert "install" in mcp("--help").output
