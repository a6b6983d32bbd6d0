"""Tests for the log of the messages exchanged with a server."""

from mcphost.message_log import MAX_MESSAGE_BYTES, MAX_MESSAGES, MAX_TOTAL_BYTES, LoggedMessage, MessageLog


def test_the_newest_messages_are_kept_and_the_others_counted() -> None:
    log = MessageLog()
    for number in range(MAX_MESSAGES + 7):
        log.add("sent", b'{"id": %d}' % number)
    assert [one.data for one in log.messages()] == [b'{"id": %d}' % number for number in range(7, MAX_MESSAGES + 7)]
    assert log.dropped == 7


def test_long_messages_are_cut_and_all_together_are_bounded() -> None:
    log = MessageLog()
    for _number in range(200):
        log.add("received", b"x" * 1_000_000)
    messages = log.messages()
    assert {(len(one.data), one.size) for one in messages} == {(MAX_MESSAGE_BYTES, 1_000_000)}
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
