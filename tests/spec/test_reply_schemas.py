"""Tests that replies to server requests conform to the schema of the server's revision."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.schema import RootConfig
from mcphost.host.questions.questions import (
    Accept,
    AcceptUrl,
    ApproveUnchanged,
    Cancel,
    Decline,
    EditedReply,
    ShareOnce,
)
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.spec.wire_schema import wire_schema
from tests.unit.host.asking_server import (
    HANDSHAKE,
    ROOTS,
    STATELESS,
    AskingServer,
    form_request,
    open_asking_host,
    sampling_request,
    url_request,
)

pytestmark = pytest.mark.anyio
TOOL = {"name": "look", "inputSchema": {"type": "object"}}
FIELDS = {
    "name": {"type": "string", "default": "Ada"},
    "age": {"type": "integer", "default": 3},
    "sure": {"type": "boolean", "default": True},
}
MANY = {"many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]}}


def reply_cases(revision: str) -> list[tuple[str, tuple[str, dict[str, Any]], list[Any]]]:
    """Return the cases to test: the name of the reply's schema, the server's request, and the user's answers."""
    pictures = EditedReply(({"type": "image", "data": "QUJD", "mimeType": "image/png"},))
    found: list[tuple[str, tuple[str, dict[str, Any]], list[Any]]] = [
        ("CreateMessageResult", sampling_request(), [ApproveUnchanged(), ApproveUnchanged()]),
        ("CreateMessageResult", sampling_request(), [ApproveUnchanged(), pictures]),
        ("ListRootsResult", ROOTS, [ShareOnce()]),
    ]
    if revision >= "2025-06-18":
        found += [
            ("ElicitResult", form_request(FIELDS), [answer])
            for answer in (Accept(), Accept({"age": 4}), Decline(), Cancel())
        ]
    if revision >= "2025-11-25":
        found += [
            ("ElicitResult", form_request(MANY), [Accept()]),
            ("ElicitResult", url_request("https://example.com/"), [AcceptUrl()]),
            ("CreateMessageResult", sampling_request(tools=[TOOL]), [ApproveUnchanged(), ApproveUnchanged()]),
        ]
    return found


@pytest.mark.parametrize("revision", [*HANDSHAKE, STATELESS])
async def test_every_reply_to_a_server_request_is_valid_by_the_schema_of_its_revision(
    revision: str, tmp_path: Path
) -> None:
    schema = wire_schema(revision)
    for number, (result, ask, answers) in enumerate(reply_cases(revision)):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = ScriptedModel(
            tool_round(("look", {"a": 1}), ("look", {}), text="I look.") if "tools" in ask[1] else text_round("x")
        )
        peer = AskingServer(revision, {"a": ask})
        async with open_asking_host(
            folder, peer, ScriptedFrontend(*answers), model, roots=(RootConfig(str(folder), "here"), RootConfig("/"))
        ) as host:
            response = json.loads((await host.tools.call("peer", "ask", {})).text)
        assert schema.find_faults(result, response["a"]["result"]) == []
