"""Tests for the demo model: which requests it understands, that it calls only offered tools, and what it reports."""

from typing import Any

import pytest

from mcphost.demo.server import TOOLS
from mcphost.host.conversation.summarizer import encode_message, encode_sentence, parse_summary
from mcphost.llm.demo_model import DemoModel, make_answer, parse_arguments
from mcphost.llm.messages import Message, ResourcePart, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelEvent, ModelRequest, StreamFinished, TextDelta, ToolSpec, ToolUseDelta, ToolUseReady
from mcphost.serialization import Raw, encode
from mcphost.store.compactions import SummarySentence

OFFERED = tuple(ToolSpec(f"demo__{tool['name']}", "", Raw(encode(tool["inputSchema"]))) for tool in TOOLS)


def model_request(text: str, tools: tuple[ToolSpec, ...] = OFFERED) -> ModelRequest:
    return ModelRequest(messages=(Message(role="user", parts=(TextPart(text),)),), tools=tools)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("add 2 and 40", [("add", {"a": 2, "b": 40})]),
        ("what is 2+40", [("add", {"a": 2, "b": 40})]),
        ("What is 2.5 plus -1?", [("add", {"a": 2.5, "b": -1})]),
        ("multiply 6 by 7", [("multiply", {"a": 6, "b": 7})]),
        ("what is 6 x 7", [("multiply", {"a": 6, "b": 7})]),
        ("note: buy milk", [("add_note", {"text": "buy milk"})]),
        ("remember that tea and cake are good", [("add_note", {"text": "tea and cake are good"})]),
        ("list my notes", [("list_notes", {})]),
        ("forget my notes", [("clear_notes", {})]),
        ("clear all notes", [("clear_notes", {})]),
        ("count slowly to 5", [("count_slowly", {"to": 5})]),
        ("count to 3 in 2 seconds", [("count_slowly", {"to": 3, "seconds": 2})]),
        ("slow", [("count_slowly", {"to": 5})]),
        ("roll a d20", [("roll_dice", {"sides": 20})]),
        ("roll the dice", [("roll_dice", {})]),
        ("add 1 and 2 and list my notes", [("add", {"a": 1, "b": 2}), ("list_notes", {})]),
        ("note: eggs and add 3 and 4", [("add_note", {"text": "eggs"}), ("add", {"a": 3, "b": 4})]),
        ("order tea", [("order_tea", {})]),
        ("show me the form", [("order_tea", {})]),
        ("open a page and roll a die", [("open_page", {}), ("roll_dice", {})]),
        ("ask the model", [("ask_model", {})]),
        ("ask your model: say hi", [("ask_model", {"question": "say hi"})]),
        ('call add {"a": 1, "b": 2}', [("add", {"a": 1, "b": 2})]),
        ('call demo:add_note text="two words"', [("add_note", {"text": "two words"})]),
    ],
)
def test_requests_become_calls(text: str, calls: list[tuple[str, Any]]) -> None:
    _text, uses = make_answer(model_request(text))
    assert [(use.name.removeprefix("demo__"), use.arguments) for use in uses] == calls


def test_any_tool_can_be_called_by_name() -> None:
    tools = (ToolSpec("files__read-file", "", Raw(b'{"type":"object","required":["path"]}')),)
    _text, (use,) = make_answer(model_request("call read-file path=/tmp/a deep=true", tools))
    assert (use.name, use.arguments) == ("files__read-file", {"path": "/tmp/a", "deep": True})
    text, uses = make_answer(model_request("call read-file", tools))
    assert uses == ()
    assert "path=" in text


def test_an_unoffered_tool_is_not_invented() -> None:
    text, uses = make_answer(model_request("add 2 and 40", ()))
    assert uses == ()
    assert "42" not in text
    assert "`add`" in text


@pytest.mark.parametrize("text", ["help", "hello", "", "banana", "((((" * 1000, "call", "call x {"])
def test_everything_else_gets_help(text: str) -> None:
    shown, uses = make_answer(model_request(text))
    assert uses == ()
    assert shown


def test_the_demo_model_answers_sampling_with_the_requested_text() -> None:
    assert make_answer(model_request("Say: the kettle is on.", ())) == ("the kettle is on.", ())
    assert make_answer(model_request("Say: the kettle is on."))[0] != "the kettle is on."


def test_an_attachment_is_acknowledged() -> None:
    message = Message(role="user", parts=(TextPart("help"), ResourcePart("demo", "demo://guide", "abc")))
    assert "demo://guide" in make_answer(ModelRequest(messages=(message,)))[0]


def test_results_are_reported_and_a_refusal_is_accepted_with_its_reason() -> None:
    uses = (ToolUsePart("c1", "demo__add", {}), ToolUsePart("c2", "demo__clear_notes", {}))
    messages = (
        Message(role="user", parts=(TextPart("x"),)), Message(role="assistant", parts=uses),
        Message(role="tool", parts=(ToolReturnPart("c1", "demo__add", "42", tool="add"),)),
        Message(role="tool", parts=(
            ToolReturnPart("c2", "demo__clear_notes", "The user declined this call; the tool did not run. Reason: mine",
                           is_error=True, tool="clear_notes"),
        )),
    )  # fmt: skip
    text, more = make_answer(ModelRequest(messages=messages, tools=OFFERED))
    assert more == ()
    assert "- **add** returned: 42" in text
    assert "**clear_notes** was declined" in text
    assert "mine" in text


def test_a_summary_has_a_line_with_its_sources_for_each_turn() -> None:
    use = ToolUsePart("c1", "demo__add", {"a": 2, "b": 40})
    messages = (
        Message(role="user", parts=(TextPart("what is\n2 + 40?"),)),
        Message(role="assistant", parts=(use,)),
        Message(role="tool", parts=(ToolReturnPart("c1", "demo__add", "42", tool="add"),)),
        Message(role="assistant", parts=(TextPart("**add** returned: 42"),)),
        Message(role="user", parts=(TextPart("x" * 100),)),
    )
    lines = [encode_message(number, message) for number, message in enumerate(messages, 3)]
    earlier = encode_sentence(SummarySentence("They met.", (1, 2)))
    text, uses = make_answer(model_request("\n".join((earlier, *lines)), ()))
    assert uses == ()
    assert parse_summary(text, range(1, 8)) == (
        SummarySentence("They met.", (1, 2)),
        SummarySentence("The user wrote: what is 2 + 40? The answer was: **add** returned: 42", (3, 4, 5, 6)),
        SummarySentence(f"The user wrote: {'x' * 60}…", (7,)),
    )


@pytest.mark.anyio
async def test_it_streams_in_pieces_like_any_model() -> None:
    model = DemoModel(interval=0)
    events: list[ModelEvent] = []
    async with model.stream(model_request("add 2 and 40")) as stream:
        async for event in stream:
            events.append(event)  # noqa: PERF401
    assert sum(isinstance(event, TextDelta) for event in events) > 2
    (ready,) = [event.use for event in events if isinstance(event, ToolUseReady)]
    assert "".join(event.text for event in events if isinstance(event, ToolUseDelta)) == ready.raw
    assert isinstance(events[-1], StreamFinished)
    assert model.label == "demo (not an AI)"


@pytest.mark.parametrize("levels", [5_000, 100_000])
def test_arguments_nested_too_deep_are_no_json(levels: int) -> None:
    deep = "[" * levels + "]" * levels
    assert parse_arguments(f'{{"a": {deep}}}') == {}
    assert parse_arguments(f"a={deep}") == {"a": deep}
