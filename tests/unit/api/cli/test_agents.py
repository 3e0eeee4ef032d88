"""What `foldex mcp` answers to lines that are no messages, and to folders that it cannot serve."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from anyio import create_memory_object_stream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter

from api.cli.agents import BYTE_ORDER_MARK, readable
from tests.coroutines import run

PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'


@pytest.mark.parametrize(
    ("line", "code"), [('{"jsonrpc": "2.0", "id": 1,', PARSE_ERROR), ('{"id": 1, "method": "ping"}', INVALID_REQUEST)]
)
def test_a_line_that_is_no_message_is_answered_and_the_next_is_passed_on(line: str, code: int) -> None:
    answer, passed = run(_sent(line, PING))
    assert '"id":null' in answer.message.model_dump_json(exclude_unset=True)
    assert answer.message.model_dump()["error"]["code"] == code
    assert passed == _read(PING)


@pytest.mark.parametrize(
    ("folder", "reason"), [("nope", "does not exist"), ("file", "is a file"), ("", "is empty"), ("s3://", "no bucket")]
)
def test_a_folder_that_cannot_be_indexed_ends_the_command_at_once(folder: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    named = str(tmp_path / folder) if folder in {"nope", "file"} else folder
    command = [sys.executable, "-m", "foldex", "mcp", "--server", "http://127.0.0.1:1", str(tmp_path), named]
    # a program of its own, because serving an agent ends the whole process
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("Error: ")
    assert reason in ended.stderr
    assert "; name " in ended.stderr or "; write " in ended.stderr


@pytest.mark.parametrize(
    "lines",
    [
        ("", PING),
        ("\n", " \t\r\n", PING + "\n"),
        (BYTE_ORDER_MARK + PING,),
        (f" {BYTE_ORDER_MARK} {PING}\r\n",),
        (BYTE_ORDER_MARK + "\n", PING),
    ],
)
def test_blank_lines_and_a_byte_order_mark_are_passed_over(lines: tuple[str, ...]) -> None:
    answer, passed = run(_sent(*lines, "{"))
    assert answer.message.model_dump()["error"]["code"] == PARSE_ERROR
    assert passed == _read(PING)


@pytest.mark.parametrize("line", [BYTE_ORDER_MARK + "{", BYTE_ORDER_MARK * 2 + PING, "\0"])
def test_a_byte_order_mark_makes_no_message_of_what_is_none(line: str) -> None:
    answer, _ = run(_sent(line, PING))
    assert answer.message.model_dump()["error"]["code"] == PARSE_ERROR


async def _sent(*lines: str) -> tuple[SessionMessage, SessionMessage | Exception]:
    agent, incoming = create_memory_object_stream[SessionMessage | Exception](len(lines))
    outgoing, answers = create_memory_object_stream[SessionMessage](len(lines))
    with agent, incoming, outgoing, answers:
        async with asyncio.timeout(30), readable(incoming, outgoing) as messages, messages:
            for line in lines:
                await agent.send(_read(line))
            answer, passed = await asyncio.gather(answers.receive(), messages.receive())
            return answer, passed


def _read(line: str) -> SessionMessage | Exception:
    """A line as the library reads it."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
