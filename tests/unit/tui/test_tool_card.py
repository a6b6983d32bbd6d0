"""Tests for the rows of a tool call's card."""

from mcphost.host.conversation.background_results import make_result_message
from mcphost.llm.messages import Message, ToolReturnPart, ToolUsePart
from mcphost.tui.transcript.blocks import TranscriptBlock
from mcphost.tui.transcript.message_blocks import build_blocks, build_user_message
from mcphost.tui.transcript.tool_card import ToolCard


def shown(block: TranscriptBlock) -> str:
    return "\n".join(row.content.plain for row in block.render(100))


def test_a_refused_call_shows_the_arguments_that_were_refused() -> None:
    card = ToolCard("c", "notes", "add_note", {"title": "one"})
    card.finish("declined", "no bad titles", 0, arguments={"title": "bad"})
    assert "title bad" in shown(card)


def test_a_call_that_is_not_sent_yet_shows_what_it_waits_for_until_it_is_sent() -> None:
    card = ToolCard("c", "notes", "add_note", {})
    card.progress = (0, None, "Waiting until the server is ready.")
    assert "Waiting until the server is ready." in shown(card)
    card.start({}, "once")
    assert "Waiting" not in shown(card)


def test_a_background_result_says_how_its_call_ended_unless_it_succeeded() -> None:
    for outcome, label in (("ok", ""), ("failed", "failed"), ("error", "error"), ("stopped", "stopped")):
        part = ToolReturnPart("c1", "notes__slow", "has ended: failed.", outcome=outcome, server="notes", tool="slow")
        heading = shown(build_user_message(make_result_message(part))).split("\n")[0].split()
        assert heading == ["Background", "result", *(["·", label] if label else [])]


def test_a_stored_call_without_a_result_names_its_server_and_tool() -> None:
    blocks = build_blocks([Message(role="assistant", parts=(ToolUsePart("c1", "notes__slow", {}),))])
    assert shown(blocks[-1]).startswith("■ notes · slow ")
