"""Tests for the parts of a stored conversation that are shown in one turn of the event loop."""

import pytest

from mcphost.llm.messages import Message, TextPart
from mcphost.tui.transcript.opened_conversation import find_part

TURNS = 50
LINES = 2_000


def conversation(text: str) -> list[Message]:
    turn = (
        Message(role="user", parts=(TextPart("go on"),)),
        Message(role="assistant", parts=(TextPart(text),)),
    )
    return [message for _ in range(TURNS) for message in turn]


@pytest.mark.parametrize(("text", "turns"), [("short", TURNS), ("a\n" * LINES, 2), ("a" * 2 * LINES, 10)])
def test_a_part_has_fewer_messages_if_they_have_many_lines(text: str, turns: int) -> None:
    messages = conversation(text)
    start = find_part(messages, len(messages), len(messages))
    assert (len(messages) - start) // 2 == turns
    assert messages[start].role == "user"
