"""Tests that the documentation names every key in the JSON of a conversation."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcphost.host.conversation.export import export_conversation
from mcphost.llm.messages import (
    CopiedText,
    FilePart,
    ImagePart,
    Message,
    PromptSource,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
    Usage,
)
from mcphost.store.conversations import ConversationInfo
from mcphost.store.manual_calls import StoredManualCall

HISTORY = Path(__file__).parents[3] / "docs" / "history.md"
PARTS = (
    TextPart("x", (CopiedText("mail", "prompt", ((0, 1),)),)),
    ThinkingPart("x"),
    ToolUsePart("u1", "mail__read", {}),
    ToolReturnPart("u1", "mail__read", "x"),
    ResourcePart("mail", "mail://1", "x"),
    ImagePart("image/png", ""),
    FilePart("a.pdf", "application/pdf", ""),
)


def read_exported() -> dict[str, Any]:
    """Return an export that has every kind of object."""
    message = Message(
        role="user", parts=PARTS, usage=Usage(), prompt=PromptSource("mail", "welcome"), servers=(("mail", "digest"),)
    )
    info = ConversationInfo("c1", "Title", "m", 1, 1.0, 1.0)
    call = StoredManualCall("mail", "read", {}, "ok", "x")
    return json.loads(export_conversation(info, (message,), "json", system_prompt="x", manual_calls=(call,)))


def list_objects(exported: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each kind of object in the documentation, with an object of that kind."""
    (message,), (call,) = exported["messages"], exported["manual_calls"]
    yield "`conversation`", exported
    yield "`message`", message
    yield "`usage`", message["usage"]
    yield "`prompt`", message["prompt"]
    yield "`manual_calls`", call
    for part in message["parts"]:
        yield f"part of `type` `{part['type']}`", {key: value for key, value in part.items() if key != "type"}
    yield "`copies`", message["parts"][0]["copies"][0]


@pytest.mark.parametrize(("name", "found"), [pytest.param(*one, id=one[0]) for one in list_objects(read_exported())])
def test_the_documentation_names_the_keys_of_the_exported_objects(name: str, found: dict[str, Any]) -> None:
    section = HISTORY.read_text().partition("## The JSON of a conversation")[2].partition("\n## ")[0]
    rows = [row.split(" | ", 1)[1] for row in section.splitlines() if row.startswith(f"| {name}")]
    documented = set(re.findall(r"`(\w+)`", " ".join(rows)))
    assert set(found) <= documented
