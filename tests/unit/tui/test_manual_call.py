"""Tests for tool calls typed as slash commands."""

import pytest

from mcphost.errors import UsageError
from mcphost.tui.chat.manual_calls import parse_manual_call


def test_values_are_json_where_they_can_be_and_text_otherwise() -> None:
    call = parse_manual_call('!everything/get-sum a=2 b=40.5 name=Ada on=true tags=["x","y"]'.replace('"', '\\"'))
    assert (call.server, call.tool) == ("everything", "get-sum")
    assert call.arguments == {"a": 2, "b": 40.5, "name": "Ada", "on": True, "tags": ["x", "y"]}


def test_quotation_marks_keep_words_together() -> None:
    call = parse_manual_call('!s/t text="two words" eq=a=b')
    assert (call.arguments, call.typed_names) == ({"text": "two words", "eq": "a=b"}, ("text", "eq"))


def test_one_json_object_is_read_completely() -> None:
    call = parse_manual_call('!s/t {"a": {"b": [1]}}')
    assert (call.arguments, call.typed_names) == ({"a": {"b": [1]}}, ())


def test_no_arguments_are_fine() -> None:
    assert parse_manual_call("!s/t").arguments == {}


@pytest.mark.parametrize("line", ["!", "!tool", "!s/", "!/t", "!s/t word", '!s/t a="open', "!s/t {bad"])
def test_unreadable_input_gets_a_hint_about_its_syntax(line: str) -> None:
    with pytest.raises(UsageError) as exc_info:
        parse_manual_call(line)
    assert exc_info.value.hint
