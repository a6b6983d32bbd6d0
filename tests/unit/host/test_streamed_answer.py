"""Tests for the message that is built from a model's streamed answer."""

from mcphost.host.conversation.turn import StreamedAnswer
from mcphost.llm.messages import ThinkingPart
from mcphost.serialization import encode


def test_data_to_send_back_is_stored_once_however_often_reasoning_and_text_alternate() -> None:
    answer = StreamedAnswer("anthropic/claude")
    replay = "x" * 100_000
    answer.add("thinking", "first", replay)
    for _ in range(500):
        answer.add("text", "a")
        answer.add("thinking", "b")

    message = answer.build_message(cut=False)

    assert len(encode(message)) < 2 * len(replay)
    reasoning = [part for part in message.parts if isinstance(part, ThinkingPart)]
    assert [part.text for part in reasoning] == ["first", *["b"] * 500]
    assert reasoning[0].replay == replay
