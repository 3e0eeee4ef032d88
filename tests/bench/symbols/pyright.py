"""Asks pyright, by the Language Server Protocol, what each name in a folder of Python means."""

from __future__ import annotations

import ast
import io
import json
import keyword
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.bench.symbols.truth import Place, TrueDefinition, TrueUse, Truth, places

#: Questions that wait for an answer at a time.
_AHEAD = 64
#: Only questions count here: pyright need not check files.
_SETTINGS = {"pythonPath": sys.executable, "typeCheckingMode": "off", "diagnosticMode": "openFilesOnly"}


class LanguageServer:
    """A language server over standard input and output."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
        self._last = 0
        self._answers: dict[int, Any] = {}

    def ask(self, method: str, params: object) -> int:
        """Send a question, and return its number."""
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        return self._last

    def tell(self, method: str, params: object) -> None:
        """Send what needs no answer."""
        self._send({"method": method, "params": params})

    def answer(self, number: int) -> Any:
        """Wait for the answer to a question."""
        while number not in self._answers:
            message = self._receive()
            if "method" in message and "id" in message:
                count = len(message["params"].get("items", ())) if message["method"] == "workspace/configuration" else 0
                self._send({"id": message["id"], "result": [_SETTINGS] * count or None})
            elif "id" in message:
                self._answers[message["id"]] = message.get("result")
        return self._answers.pop(number)

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.communicate()

    def _send(self, message: dict[str, object]) -> None:
        assert self._process.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while (line := self._process.stdout.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message


def of_python(folder: Path, modules: Path) -> Truth:
    """What pyright, installed below `modules`, knows of a folder."""
    server = LanguageServer(["node", str(modules / "pyright" / "langserver.index.js"), "--stdio"], folder)
    root = folder.as_uri()
    folders = [{"uri": root, "name": folder.name}]
    asked = {"workspace": {"configuration": True, "workspaceFolders": True}}
    server.answer(
        server.ask(
            "initialize", {"processId": None, "rootUri": root, "capabilities": asked, "workspaceFolders": folders}
        )
    )
    server.tell("initialized", {})
    files = {path: _Names(str(path.relative_to(folder)), path.read_text()) for path in sorted(folder.rglob("*.py"))}
    truth = Truth([each for names in files.values() for each in names.definitions], [])
    wanted = {each.name for each in truth.definitions}
    wanted |= {alias for names in files.values() for name, alias in names.aliases if name in wanted}
    try:
        for path, names in files.items():
            document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": names.text}
            server.tell("textDocument/didOpen", {"textDocument": document})
            truth.uses.extend(_uses(server, path, folder, names, wanted))
            server.tell("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})
    finally:
        server.close()
    return truth


def _uses(server: LanguageServer, path: Path, folder: Path, names: _Names, wanted: set[str]) -> Iterator[TrueUse]:
    waiting: list[tuple[int, tokenize.TokenInfo]] = []
    tokens = [token for token in names.tokens if token.string in wanted and token.start not in names.defined]
    for number in range(len(tokens) + _AHEAD):
        if number < len(tokens):
            line, column = tokens[number].start
            position = {"line": line - 1, "character": column}
            place = {"textDocument": {"uri": path.as_uri()}, "position": position}
            waiting.append((server.ask("textDocument/definition", place), tokens[number]))
        if waiting and (number >= len(tokens) or len(waiting) == _AHEAD):
            asked, token = waiting.pop(0)
            found = server.answer(asked) or []
            targets = places(filter(None, (_inside(each, folder) for each in found)))
            is_call = token.start in names.calls
            yield TrueUse(token.string, Place(names.file, token.start[0]), is_call, bool(found), targets)


def _inside(location: dict[str, Any], folder: Path) -> tuple[str, int] | None:
    path = Path(unquote(urlsplit(location["uri"]).path))
    return (str(path.relative_to(folder)), location["range"]["start"]["line"] + 1) if folder in path.parents else None


class _Names:
    """The names in one file: all of them, those of definitions, and those that are called."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, lines = file, text, text.split("\n")
        self.tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string)
        ]
        self.definitions: list[TrueDefinition] = []
        self.defined: set[tuple[int, int]] = set()
        self.calls: set[tuple[int, int]] = set()
        self.aliases: set[tuple[str, str]] = set()
        self._lines = lines
        tree = ast.parse(text)
        for node in ast.walk(tree):
            self._look_at(node)
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            for target in targets:
                if isinstance(target, ast.Name):
                    self._define(target.id, node, node.lineno, target.lineno)

    def _look_at(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            self._define(node.name, node, first, node.lineno)
        if isinstance(node, ast.ImportFrom):
            self.aliases |= {(each.name, each.asname) for each in node.names if each.asname}
        for function in [node.func] if isinstance(node, ast.Call) else getattr(node, "decorator_list", []):
            if isinstance(function, ast.Name):
                self.calls.add((function.lineno, self._column(function.lineno, function.col_offset)))
            elif isinstance(function, ast.Attribute) and function.end_lineno and function.end_col_offset:
                end = self._column(function.end_lineno, function.end_col_offset)
                self.calls.add((function.end_lineno, end - len(function.attr)))

    def _column(self, line: int, offset: int) -> int:
        return len(self._lines[line - 1].encode()[:offset].decode())

    def _define(self, name: str, node: ast.stmt, first: int, line: int) -> None:
        start = next(each.start for each in self.tokens if each.start[0] == line and each.string == name)
        self.defined.add(start)
        self.definitions.append(TrueDefinition(name, Place(self.file, line), first, node.end_lineno or line))
