"""Tests that the terminal's device attributes are recognized in its input, and never taken for keys."""

import pytest
from textual.events import Key, Paste
from textual.messages import TerminalSupportsSynchronizedOutput

from mcphost.tui.terminal_driver import ReplyParser


def split_into_keys(parser: ReplyParser, text: str, size: int) -> list[str]:
    """Return the keys that the parser finds if the input arrives in pieces of this size."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    return [event.key for piece in pieces for event in parser.feed(piece) if isinstance(event, Key)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_no_part_of_the_device_attributes_is_typed_however_they_arrive(size: int) -> None:
    found: list[frozenset[int]] = []
    text = "ab\x1b[?62;4;22cc\x1b[?6cd"
    parser = ReplyParser(lambda _: None, on_attributes=found.append)
    parser.is_answer_expected = True
    assert split_into_keys(parser, text, size) == ["a", "b", "c", "d"]
    assert found == [{62, 4, 22}, {6}]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_keys_that_begin_like_an_answer_are_keys_while_one_is_expected(size: int) -> None:
    text = "\x1b[A\x1b[15~x"
    parser = ReplyParser(lambda _: None)
    parser.is_answer_expected = True
    assert split_into_keys(parser, text, size) == ["up", "f5", "x"]


@pytest.mark.parametrize("size", [4, 6, 100])
def test_other_answers_of_the_terminal_still_arrive(size: int) -> None:
    text = "\x1b[?2026;2$y"
    parser = ReplyParser(lambda _: None)
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert [type(event) for event in events] == [TerminalSupportsSynchronizedOutput]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 100])
def test_pasted_text_answers_no_question_and_arrives_as_text(size: int) -> None:
    found: list[object] = []
    pasted = "hello \x1b[?1;4c \x1b]11;rgb:0000/0000/0000\x1b\\ world \x1b[?6"
    text = f"\x1b[200~{pasted}\x1b[201~a\x1b[?62;22cb"
    parser = ReplyParser(found.append, on_attributes=found.append)
    parser.is_answer_expected = True
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert [event.text for event in events if isinstance(event, Paste)] == [pasted.replace("\x1b", "\u241b")]
    assert [event.key for event in events if isinstance(event, Key)] == ["a", "b"]
    assert found == [{62, 22}]
