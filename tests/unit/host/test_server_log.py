"""Tests for log messages from a server: levels, arbitrary JSON as data, floods and secrets."""

import logging
from typing import Any

import anyio
import pytest

from mcphost import redact
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ServerLog
from mcphost.host.servers import server_log
from mcphost.host.servers.server_log import (
    MAX_CHARS,
    MAX_CHARS_PER_SECOND,
    MAX_LINES,
    MAX_LINES_PER_SECOND,
    MAX_NEWEST,
    ServerLogBuffer,
)
from mcphost.protocol.notifications import LEVELS, LoggingMessageNotification, severity
from mcphost.serialization import Raw, encode


def log_message(data: Any, level: str = "info", logger: str | None = None) -> LoggingMessageNotification:
    return LoggingMessageNotification(level, logger, Raw(encode(data)))


@pytest.mark.req("log.message")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("plain", "plain"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        (5, "5"),
        (None, "null"),
        (True, "true"),
        ("x" * 9000, "x" * MAX_CHARS),
        (["y" * 9000], '["' + "y" * (MAX_CHARS - 2)),
    ],
)
def test_data_of_any_kind_is_shown(data: Any, text: str) -> None:
    log = ServerLogBuffer("s", EventBus())
    log.add_message(log_message(data, logger="db"))
    (line,) = log.lines()
    assert (line.text, line.logger, line.level, line.source) == (text, "db", "info", "server")


@pytest.mark.req("log.levels")
def test_levels_have_an_order_and_an_unknown_one_counts_as_info() -> None:
    assert [severity(level) for level in LEVELS] == list(range(8))
    log = ServerLogBuffer("s", EventBus())
    for level in ("trace", "", "WARNING"):
        log.add_message(log_message("x", level))
    assert [line.level for line in log.lines()] == ["info"] * 3


@pytest.mark.req("log.levels")
def test_unsubscribed_notifications_are_ignored() -> None:
    log = ServerLogBuffer("s", EventBus())
    log.level = "warning"
    for level in (*LEVELS, "fatal"):
        log.add_message(log_message(level, level))
    assert [line.text for line in log.lines()] == ["warning", "error", "critical", "alert", "emergency"]


@pytest.mark.req("log.flood")
def test_a_flood_is_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(server_log.time, "monotonic", lambda: now)
    event_bus = EventBus()
    feed = event_bus.subscribe()
    log = ServerLogBuffer("s", event_bus)
    for number in range(50_000):
        log.add_message(log_message(number))
    log.add("warning", "our own word", "client")
    assert len(log.lines()) == MAX_LINES_PER_SECOND + 1 + MAX_NEWEST + 1
    now += 1
    log.add("info", "later", "stderr")
    kept = [str(number) for number in range(50_000 - MAX_NEWEST, 50_000)]
    assert [line.text for line in log.lines()[-3 - MAX_NEWEST :]] == [
        f"{50_000 - MAX_LINES_PER_SECOND - MAX_NEWEST:,} more log lines were dropped.",
        *kept,
        "our own word",
        "later",
    ]
    for _ in range(20):
        now += 1
        for number in range(MAX_LINES_PER_SECOND):
            log.add_message(log_message(number))
    assert len(log.lines()) == MAX_LINES
    assert len(feed.drain()) <= MAX_LINES


def test_the_last_lines_of_a_second_are_kept_although_nothing_follows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(server_log.time, "monotonic", lambda: now)
    for end in ("a second passes", "the server fails"):
        log = ServerLogBuffer("s", EventBus())
        for number in range(200):
            log.add_stderr(f"{number} " + "x" * 1_000)
        log.add_stderr("Error: no licence")
        log.add_stderr("token=hunter2hunter2")
        assert "licence" not in log.lines()[-1].text
        if end == "a second passes":
            now += 1
        else:
            log.write_stderr_to_file()
            assert "Error: no licence\n" in caplog.text
        assert [line.text for line in log.lines()[-2:]] == ["Error: no licence", "token=[secret]"]
        dropped = 202 - len([line for line in log.lines() if line.source == "stderr"])
        assert f"{dropped} more log lines were dropped." in [line.text for line in log.lines()]


@pytest.mark.anyio
@pytest.mark.parametrize("end", ["a second passes", "the connection ends"])
async def test_the_last_lines_of_a_flood_are_published_although_nothing_follows(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(server_log, "HOLD_SECONDS", 0.01 if end == "a second passes" else 3_600)
    event_bus = EventBus()
    feed = event_bus.subscribe()
    log = ServerLogBuffer("s", event_bus)
    for number in range(2 * MAX_LINES_PER_SECOND):
        log.add_stderr(str(number))
    log.add_stderr("Error: no licence")
    if end == "the connection ends":
        log.end_attempt()
    with anyio.fail_after(20):
        async for event in feed:
            if isinstance(event, ServerLog) and event.text == "Error: no licence":
                break


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_each_line_of_stderr_is_in_the_log_file_only_with_debug(level: int, caplog: pytest.LogCaptureFixture) -> None:
    log = ServerLogBuffer("notes", EventBus())
    with caplog.at_level(level, logger="mcphost"):
        log.add_stderr("opened notes.db")
        log.add_stderr("token=hunter2hunter2")
        log.add_stderr("x" * 9_000)
        log.add_message(log_message("a message of MCP"))
    expected = ["opened notes.db", "token=[secret]", "x" * MAX_CHARS] if level == logging.DEBUG else []
    assert [one.message for one in caplog.records] == [f"stderr of the server 'notes': {line}" for line in expected]


@pytest.mark.req("log.sensitive")
def test_a_secret_that_a_server_logs_is_masked() -> None:
    redact.register_secret("hunter2-and-more")
    log = ServerLogBuffer("s", EventBus())
    log.add_message(log_message({"password": "hunter2-and-more"}))
    assert "hunter2" not in log.lines()[0].text


@pytest.mark.req("log.sensitive")
@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("GET /v1?api_key=abcdef123456 200", "GET /v1?api_key=[secret] 200"),
        ("starting with --token abcdef123456", "starting with --token [secret]"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer [secret]"),
        ("x" * (MAX_CHARS - 8) + " sk-0123456789abcdef0123", "x" * (MAX_CHARS - 8) + " [secret"),
        (
            "visit https://as.example/authorize?response_type=code&client_id=a&state=abcdef123 to sign in",
            "visit https://as.example/authorize?response_type=code&client_id=a&state=abcdef123 to sign in",
        ),
        (
            "GET https://h.example/v1?response_type=json&api_key=abcdef123456",
            "GET https://h.example/v1?response_type=json&api_key=[secret]",
        ),
        (
            f"https://h.example/v1?response_type=code{'&a=b' * 100}&state=abcdef123",
            f"https://h.example/v1?response_type=code{'&a=b' * 100}&state=[secret]",
        ),
        (
            "got https://h.example/cb?code=abcdef123&state=abcdef123",
            "got https://h.example/cb?code=[secret]&state=[secret]",
        ),
    ],
)
def test_what_looks_like_a_secret_in_a_servers_output_is_masked(printed: str, shown: str) -> None:
    log = ServerLogBuffer("s", EventBus())
    log.add_stderr(printed)
    log.add_message(log_message(printed, logger="sk-0123456789abcdef0123"))
    assert [(line.text, line.logger) for line in log.lines()] == [(shown, ""), (shown, "[secret]")]


KEY_LINES = ("-----BEGIN OPENSSH PRIVATE KEY-----", "b3BlbnNzaC1rZXktdjEA", "", "AAAAtzc2gtZWQyNTUxOQ==")
KEY_END = "-----END OPENSSH PRIVATE KEY-----"


def test_a_key_of_too_many_lines_in_one_message_masks_nothing_after_it() -> None:
    log = ServerLogBuffer("s", EventBus())
    log.add_message(log_message(KEY_LINES[0] + "\n" * 300_000))
    log.add_message(log_message(KEY_LINES[3]))
    assert log.lines()[-1].text == KEY_LINES[3]


@pytest.mark.parametrize("source", ["stderr", "server"])
def test_a_private_key_spread_over_several_lines_is_masked_to_its_end(source: str) -> None:
    log = ServerLogBuffer("s", EventBus())

    def add(line: str) -> None:
        if source == "stderr":
            log.add_stderr(line)
        else:
            log.add_message(log_message(line))

    for line in (f"key: {KEY_LINES[0]}", *KEY_LINES[1:], f"AAAA{KEY_END} loaded", "ready"):
        add(line)
    shown = [line.text for line in log.lines()]
    assert shown == ["key: [secret]", "[secret]", "", "[secret]", "[secret] loaded", "ready"]


def test_the_lines_after_a_key_without_an_end_are_masked_to_a_limit() -> None:
    log = ServerLogBuffer("s", EventBus())
    for number in range(202):
        log.add_stderr(KEY_LINES[0] if not number else f"{number:064}")
    assert [line.text for line in log.lines()] == ["[secret]"] * 201 + [f"{201:064}"]


def test_a_line_that_only_mentions_a_key_hides_nothing_of_the_lines_after_it() -> None:
    log = ServerLogBuffer("s", EventBus())
    after = ["Traceback (most recent call last):", "ValueError: the file is empty", "AAAAtzc2gtZWQyNTUxOQ"]
    for first in ("Traceback", "", *KEY_LINES[1:]):
        for line in (f"expected '{KEY_LINES[0]}' in key.pem", first, *after):
            log.add_stderr(line)
            log.add_message(log_message(line))
        assert [line.text for line in log.lines()[-6:]] == [line for line in after for _source in range(2)]
    log.add_message(log_message(f"{KEY_LINES[0]}\n{KEY_LINES[1]}"))
    log.add_message(log_message(f"{KEY_LINES[1]}\nnow it is ready\n{KEY_LINES[1]}"))
    assert log.lines()[-1].text == f"[secret]\nnow it is ready\n{KEY_LINES[1]}"


@pytest.mark.parametrize("prefix", ["", "  ", "12:03:01 INFO ", '"'])
def test_all_lines_of_a_key_are_masked_whatever_a_logger_adds(prefix: str) -> None:
    body = ["Proc-Type: 4,ENCRYPTED", "Comment: GPGTools", "", "MIIE" * 16, "a/b+" * 16, "c2VjcmV0Cg==", "=njUN"]
    log = ServerLogBuffer("s", EventBus())
    for line in (KEY_LINES[0], *body, "ready"):
        log.add_stderr(f"{prefix}{line}" if line else "")
    shown = [line.text for line in log.lines()]
    assert shown[1:] == [*["[secret]"] * 2, "", *["[secret]"] * 4, f"{prefix}ready"]


def test_the_output_of_the_next_process_is_no_part_of_a_key_of_the_previous_one() -> None:
    log = ServerLogBuffer("s", EventBus())
    log.add_stderr(KEY_LINES[0])
    log.add_message(log_message(KEY_LINES[0]))
    log.begin_attempt()
    log.add_stderr(KEY_LINES[1])
    log.add_message(log_message(KEY_LINES[1]))
    assert [line.text for line in log.lines()[2:]] == [KEY_LINES[1]] * 2


def test_a_key_in_one_source_hides_nothing_of_the_other() -> None:
    log = ServerLogBuffer("s", EventBus())
    log.add_stderr(KEY_LINES[0])
    log.add_message(log_message("hello"))
    log.warn_once("The server is slow.")
    log.add_stderr(KEY_LINES[1])
    assert [line.text for line in log.lines()] == ["[secret]", "hello", "The server is slow.", "[secret]"]


@pytest.mark.req("log.flood")
def test_a_flood_of_long_lines_is_bounded_by_its_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_log.time, "monotonic", lambda: 100.0)
    log = ServerLogBuffer("s", EventBus())
    for _ in range(MAX_LINES_PER_SECOND):
        log.add_stderr("--token " * 250)
    assert sum(len(line.text) for line in log.lines()) <= MAX_CHARS_PER_SECOND
    assert log.dropped == MAX_LINES_PER_SECOND - len(log.lines())
    log.add("warning", "our own word", "client")
    assert sum(len(line.text) for line in log.lines()) <= MAX_CHARS_PER_SECOND + (MAX_NEWEST + 1) * MAX_CHARS
    assert log.lines()[-1].text == "our own word"


@pytest.mark.req("log.flood")
def test_a_flood_that_causes_many_warnings_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_log.time, "monotonic", lambda: 100.0)
    log = ServerLogBuffer("s", EventBus())
    for number in range(50 * MAX_NEWEST):
        log.add_stderr("x" * 1_000)
        if number % MAX_NEWEST == 0:
            log.warn_once(f"warning {number}")
    assert sum(len(line.text) for line in log.lines() if line.source == "stderr") <= 2 * MAX_CHARS_PER_SECOND
