"""Tests for the notice about never-rules for tools that a server does not have."""

from pathlib import Path

import pytest

from mcphost.config.rule_syntax import parse_alternatives
from mcphost.host.event_bus import EventBus, EventQueue
from mcphost.host.events import NoticeEvent
from mcphost.host.host import Host
from mcphost.host.servers.rule_notices import NeverRuleNotices
from tests.unit.host.scripted_host import InProcessServer, create_peer, open_host_with, tool_definition, tools_result

pytestmark = pytest.mark.anyio


def server_with(*tools: str) -> InProcessServer:
    return create_peer(tools__list=tools_result(*map(tool_definition, tools)))


def notices(feed: EventQueue) -> list[str]:
    return [event.text for event in feed.drain() if isinstance(event, NoticeEvent) and event.level == "warning"]


async def connect(host: Host, *names: str) -> EventQueue:
    """Start these servers one after the other; return the events since then."""
    feed = host.events.subscribe()
    host.start(only=())
    for name in names:
        await host.servers.ensure_ready(name)
    return feed


async def test_a_rule_for_a_tool_that_the_server_does_not_have_is_reported_once(tmp_path: Path) -> None:
    never = tuple(rule for text in ("peer/saev", "peer/save", "peer/load_skill") for rule in parse_alternatives(text))
    async with open_host_with(tmp_path, server_with("save"), never=never, wait=lambda _: False) as host:
        feed = await connect(host, "peer")
        (told,) = notices(feed)
        assert told.startswith("In \"consent.never\", the rule 'peer/saev' matches no call: ")
        assert told.endswith("has no such tool. Did you mean 'save'?")


def test_a_server_that_is_connected_again_repeats_no_notice() -> None:
    events = EventBus()
    feed = events.subscribe()
    reported = NeverRuleNotices(lambda: parse_alternatives("peer/saev"), events, ())
    reported.start()
    reported.handle_tools("peer", ["save"])
    assert len(notices(feed)) == 1
    reported.handle_tools("peer", ["save", "other"])
    assert notices(feed) == []


async def test_a_rule_that_may_be_for_a_server_that_is_not_connected_yet_waits_for_it(tmp_path: Path) -> None:
    never = parse_alternatives("a/b/x")
    peers = {"a": server_with("y"), "a/b": server_with("y")}
    async with open_host_with(tmp_path, peers, never=never, wait=lambda _: False) as host:
        feed = await connect(host, "a")
        assert notices(feed) == []
        await host.servers.ensure_ready("a/b")
        assert ["'a/b/x'" in text for text in notices(feed)] == [True, False], "one for each way to read it"


async def test_commands_that_report_rules_themselves_get_no_notice(tmp_path: Path) -> None:
    never = parse_alternatives("peer/saev")
    async with open_host_with(tmp_path, server_with("save"), never=never, wait=lambda _: False) as host:
        feed = host.events.subscribe()
        await host.servers.ensure_ready("peer")
        assert notices(feed) == []
