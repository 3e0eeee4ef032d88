"""What `foldex mcp` answers to lines that are no messages."""

from __future__ import annotations

import asyncio

import pytest
from anyio import create_memory_object_stream
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter

from api.cli.agents import readable
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


async def _sent(*lines: str) -> tuple[SessionMessage, SessionMessage | Exception]:
    agent, incoming = create_memory_object_stream[SessionMessage | Exception](len(lines))
    outgoing, answers = create_memory_object_stream[SessionMessage](len(lines))
    with agent, incoming, outgoing, answers:
        async with asyncio.timeout(30), readable(incoming, outgoing) as messages, messages:
            for line in lines:
                await agent.send(_read(line))
            return await answers.receive(), await messages.receive()


def _read(line: str) -> SessionMessage | Exception:
    """A line as the library reads it."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error
