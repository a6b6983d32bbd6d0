"""Tests that a server cannot open and withdraw questions endlessly, because each one leaves an audit row."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.client.session import ServerRequestContext
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.server_requests import request_handler
from mcphost.host.server_requests.request_handler import BURST, ServerRequestHandler, ServerRequestHandlerFactory
from mcphost.protocol.server_requests import Elicit, ElicitResult, ServerRequestRejection
from mcphost.serialization import Raw
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.audit_rows import create_audit_log, read_rows

pytestmark = pytest.mark.anyio
CONTEXT = ServerRequestContext("tools/call", "t", 1)
ASK = Elicit(message="Who are you?", requested_schema=Raw(b'{"type":"object","properties":{"a":{"type":"string"}}}'))


def create_request_handler(audit_log: AuditLog, frontend: Any) -> ServerRequestHandler:
    nothing: Any = None
    return ServerRequestHandlerFactory(audit_log.wrap_frontend(frontend), nothing, nothing, print, audit_log).create(
        "s"
    )


async def ask_and_withdraw(handler: ServerRequestHandler, frontend: ScriptedFrontend) -> Any:
    """Send a request and withdraw it when its question is open; return the reply if it is refused instead."""
    replies: list[Any] = []

    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            replies.append(await handler.answer(ASK, CONTEXT))
            tasks.cancel_scope.cancel()

        shown = frontend.asked_now
        tasks.start_soon(ask)
        await shown.wait()
        tasks.cancel_scope.cancel()
    return replies[0] if replies else None


async def test_endlessly_withdrawn_questions_are_refused_and_recorded_as_one_row(tmp_path: Path) -> None:
    audit_log, frontend = create_audit_log(tmp_path), ScriptedFrontend()
    handler = create_request_handler(audit_log, frontend)
    replies = [await ask_and_withdraw(handler, frontend) for _ in range(BURST + 30)]
    assert replies[:BURST] == [None] * BURST
    assert all(
        isinstance(reply, ServerRequestRejection) and "ask again in" in reply.message for reply in replies[BURST + 2 :]
    )
    events = [row.event for row in await read_rows(audit_log)]
    assert events.count("withdrawn") <= BURST + 2
    assert events.count("refused") == 1


async def test_questions_that_are_answered_are_never_too_many(tmp_path: Path) -> None:
    audit_log = create_audit_log(tmp_path)
    handler = create_request_handler(audit_log, ScriptedFrontend(*[ElicitResult("decline")] * (3 * BURST)))
    for _ in range(3 * BURST):
        assert isinstance(await handler.answer(ASK, CONTEXT), ElicitResult)


async def test_refusals_that_follow_are_counted_in_the_next_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit_log, frontend = create_audit_log(tmp_path), ScriptedFrontend()
    handler = create_request_handler(audit_log, frontend)
    monkeypatch.setattr(request_handler, "BURST", 0)
    for _ in range(5):
        await ask_and_withdraw(handler, frontend)
    monkeypatch.setattr(request_handler, "AUDIT_INTERVAL", 0)
    await ask_and_withdraw(handler, frontend)
    refused = [json.loads(row.detail) for row in await read_rows(audit_log) if row.event == "refused"]
    assert refused == [{"questions": 1}, {"questions": 5}]
