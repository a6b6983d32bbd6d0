"""What the desk answers a server is valid by the schema of the server's revision."""

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
from tests.fakes.front import ScriptedFront
from tests.fakes.model import ScriptedModel, calls, says
from tests.spec.wire_schema import wire_schema
from tests.unit.host.asking import HANDSHAKE, MODERN, ROOTS, Asker, address, asking_host, form, sample

pytestmark = pytest.mark.anyio
TOOL = {"name": "look", "inputSchema": {"type": "object"}}
FIELDS = {
    "name": {"type": "string", "default": "Ada"},
    "age": {"type": "integer", "default": 3},
    "sure": {"type": "boolean", "default": True},
}
MANY = {"many": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]}}


def asked(revision: str) -> list[tuple[str, tuple[str, dict[str, Any]], list[Any]]]:
    """The schema of the reply, what is asked, and the user's answers."""
    pictures = EditedReply(({"type": "image", "data": "QUJD", "mimeType": "image/png"},))
    found: list[tuple[str, tuple[str, dict[str, Any]], list[Any]]] = [
        ("CreateMessageResult", sample(), [ApproveUnchanged(), ApproveUnchanged()]),
        ("CreateMessageResult", sample(), [ApproveUnchanged(), pictures]),
        ("ListRootsResult", ROOTS, [ShareOnce()]),
    ]
    if revision >= "2025-06-18":
        found += [
            ("ElicitResult", form(FIELDS), [answer]) for answer in (Accept(), Accept({"age": 4}), Decline(), Cancel())
        ]
    if revision >= "2025-11-25":
        found += [
            ("ElicitResult", form(MANY), [Accept()]),
            ("ElicitResult", address("https://example.com/"), [AcceptUrl()]),
            ("CreateMessageResult", sample(tools=[TOOL]), [ApproveUnchanged(), ApproveUnchanged()]),
        ]
    return found


@pytest.mark.parametrize("revision", [*HANDSHAKE, MODERN])
async def test_every_reply_of_the_desk_is_valid_by_the_schema_of_its_revision(revision: str, tmp_path: Path) -> None:
    schema = wire_schema(revision)
    for number, (result, ask, answers) in enumerate(asked(revision)):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = ScriptedModel(
            calls(("look", {"a": 1}), ("look", {}), text="I look.") if "tools" in ask[1] else says("x")
        )
        peer = Asker(revision, {"a": ask})
        async with asking_host(
            folder, peer, ScriptedFront(*answers), model, roots=(RootConfig(str(folder), "here"), RootConfig("/"))
        ) as host:
            got = json.loads((await host.call_tool("peer", "ask", {})).text)
        assert schema.faults(result, got["a"]["result"]) == []
