"""Tests for the log of the messages exchanged with a server."""

import pytest

from mcphost.message_log import MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_TOTAL_BYTES, LoggedMessage, MessageLog

KEY = "sk-proj-" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5pR7t"


def test_only_the_newest_messages_are_kept() -> None:
    log = MessageLog()
    for number in range(MAX_MESSAGES + 7):
        log.add("sent", b'{"id": %d}' % number)
    assert [one.data for one in log.messages()] == [b'{"id": %d}' % number for number in range(7, MAX_MESSAGES + 7)]


def test_long_messages_are_cut_and_all_together_are_bounded() -> None:
    log = MessageLog()
    for _number in range(200):
        log.add("received", b"x" * 1_000_000)
    messages = log.messages()
    assert {one.cut_bytes for one in messages} == {1_000_000 - MAX_MESSAGE_BYTES}
    assert {len(one.to_text()) for one in messages} == {MAX_MESSAGE_BYTES}
    assert sum(len(one.data) for one in messages) <= MAX_TOTAL_BYTES


def test_messages_are_logged_before_they_are_passed_on() -> None:
    log = MessageLog()
    seen: list[LoggedMessage] = []
    log.on_message = seen.append
    passed: list[object] = []
    log.log_sent(lambda line: passed.append((line, len(seen))))(b"{}\n")
    log.log_received(lambda line: passed.append((line, len(seen))))(b"[]")
    assert passed == [(b"{}\n", 1), (b"[]", 2)]
    assert list(log.log_received_in_steps(lambda line: iter([None]))(b"long")) == [None]  # pyright: ignore[reportArgumentType]
    assert [(one.direction, one.data) for one in seen] == [
        ("sent", b"{}\n"),
        ("received", b"[]"),
        ("received", b"long"),
    ]


def test_empty_lines_are_no_messages() -> None:
    log = MessageLog()
    log.add("received", b"\n")
    assert log.messages() == ()


def text_of(data: bytes) -> str:
    log = MessageLog()
    log.add("received", data)
    return log.messages()[0].to_text(indent=2)


def test_json_is_indented_and_other_text_is_kept() -> None:
    assert text_of(b'{"id":1}') == '{\n  "id": 1\n}'
    assert text_of(b"Listening on port 3000\xff") == "Listening on port 3000�"


def test_a_very_deep_message_is_not_indented() -> None:
    deep = b"[" * 500 + b"1," * 15_000 + b"1" + b"]" * 500
    assert len(text_of(b'{"id": 1, "result": ' + deep + b"}")) < MAX_MESSAGE_BYTES


@pytest.mark.parametrize(
    "data",
    [
        f'{{"text": "{KEY}"}}',
        '{"text": "\\u0073' + KEY[1:] + '"}',
        "not JSON: \\u0073" + KEY[1:],
        "x" * (MAX_MESSAGE_BYTES - 30) + " " + KEY + "x" * 10_000,
    ],
    ids=["plain", "escaped", "escaped, not JSON", "at the cut"],
)
def test_secrets_are_removed_however_they_are_written(data: str) -> None:
    shown = text_of(data.encode())
    assert KEY[8:24] not in shown
    assert "[secret]" in shown
