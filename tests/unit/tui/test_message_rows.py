"""Tests for the labels of logged messages and HTTP exchanges, and for the filter over them."""

import pytest

from mcphost.message_log import MessageLog
from mcphost.tui.screens.message_rows import DescribedEntry, EntryDescriber, parse_filter


def example_log() -> MessageLog:
    log = MessageLog()
    log.add("sent", b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}')
    exchange = log.add_exchange(
        "POST", "http://h/mcp?session_id=123456789", (), b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}'
    )
    exchange.on_response(401, (("content-type", "text/plain"),), resent=False)
    exchange.end("complete")
    log.add("received", b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}')
    log.add("received", b'{"jsonrpc":"2.0","method":"notifications/message"}')
    log.add_exchange("GET", "http://h/mcp", (), b"").end("failed", "no connection")
    return log


def describe(log: MessageLog) -> list[DescribedEntry]:
    return EntryDescriber().describe(log.messages(), log.exchanges())


def test_exchanges_stand_between_the_messages_with_status_and_method() -> None:
    titles = [row.title for row in describe(example_log())]
    assert titles[0].startswith("GET /mcp · ")
    assert titles[0].endswith(" · no connection")
    assert titles[1] == "notifications/message"
    assert titles[2].startswith("error -1 of tools/call · ")
    assert titles[3].startswith("POST /mcp?session_id=123… · 401 · tools/call · ")
    assert titles[4] == "tools/call #1"


def test_an_exchange_is_described_again_when_it_changes() -> None:
    log, describer = MessageLog(), EntryDescriber()
    exchange = log.add_exchange("GET", "http://h/mcp", (), b"")
    assert describer.describe(log.messages(), log.exchanges())[0].title == "GET /mcp · no response yet"
    exchange.on_response(200, (("content-type", "text/event-stream"),), resent=False)
    assert describer.describe(log.messages(), log.exchanges())[0].title.endswith("ms · still open")
    exchange.end("failed", "the server closed the connection")
    assert describer.describe(log.messages(), log.exchanges())[0].title.endswith("the server closed the connection")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("method:tools/call", [2, 3, 4]),
        ("method:TOOLS error", [2, 3]),
        ("error", [0, 2, 3]),
        ("errors received", [2]),
        ("sent", [4]),
        ("status:4", [3]),
        ("status:401 method:tools", [3]),
        ("slow:0", [0, 2, 3]),
        ("slow:9s", []),
        ("slow:9000", []),
        ("get", [0]),
        ("notifications/m", [1]),
        ("tools/call #1", [2, 4]),
    ],
)
def test_each_filter_keeps_what_it_names(text: str, kept: list[int]) -> None:
    rows = describe(example_log())
    chosen = parse_filter(text, [row.title.lower() for row in rows])
    assert chosen.problem == ""
    assert [at for at, row in enumerate(rows) if chosen.passes(row, row.title.lower())] == kept


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("metod:tools", 'There is no filter "metod:". Did you mean "method:"?'),
        ("eror", 'There is no filter "eror". Did you mean "error"?'),
        ("recieved", 'There is no filter "recieved". Did you mean "received"?'),
        ("color:red", 'There is no filter "color:".'),
        ("slow:", "slow: needs a number of milliseconds, such as slow:500."),
        ("slow:fast", "slow: needs a number of milliseconds, such as slow:500."),
    ],
)
def test_misspelt_filters_are_named_and_keep_nothing(text: str, problem: str) -> None:
    rows = describe(example_log())
    chosen = parse_filter(text, [row.title.lower() for row in rows])
    assert chosen.problem == problem
    assert not any(chosen.passes(row, row.title.lower()) for row in rows)


@pytest.mark.parametrize("text", ["file://a/b", "errol", "12:34:56", "mcp?session_id", "error-handler"])
def test_other_words_are_searched(text: str) -> None:
    chosen = parse_filter(text, [text])
    assert (chosen.problem, chosen.words) == ("", (text,))
