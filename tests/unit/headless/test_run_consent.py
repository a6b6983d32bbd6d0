"""Tests for consent in noninteractive runs: `--yes` allows tool calls, and everything else is refused."""

import pytest

from mcphost.errors import UsageError
from mcphost.headless.run import RunFrontend
from mcphost.headless.run_rules import check_servers, parse_rules, quote_rule
from mcphost.host.questions.questions import AllowOnce, ApproveTool, ContinueTurn, Deny, TrustServer

pytestmark = pytest.mark.anyio


def test_an_allowed_tool_is_not_a_server_of_the_same_name() -> None:
    rules = parse_rules(("github/search", "a/b/c", "a%2Fb/c", "fs"))
    assert [(rule.server, rule.tool) for rule in rules] == [
        ("github", "search"),
        ("a", "b/c"),
        ("a/b", "c"),
        ("fs", ""),
    ]
    assert not any(rule.covers("github/search", "delete") for rule in rules)


def test_a_server_with_a_slash_in_its_name_is_named_with_a_percent_code() -> None:
    check_servers(("github/search",), ("github", "github/search"))
    check_servers(("github%2Fsearch", "other/tool"), ("github/search",))
    for text in ("github/search", "github/search/find", "github/search?n=1"):
        with pytest.raises(UsageError, match="first slash") as raised:
            check_servers((text,), ("github/search",))
        assert raised.value.hint == "For the server 'github/search' write github%2Fsearch"


def test_a_rule_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(UsageError, match="rule"):
        parse_rules(("fs", "fs/t?n"))


def approve_tool(server: str = "fs", *, has_changed: bool = False) -> ApproveTool:
    return ApproveTool(server=server, why="w", call="c", tool="read", arguments={}, has_changed=has_changed)


async def test_front_declines_every_call_that_is_asked_about() -> None:
    assert isinstance(await RunFrontend().ask(approve_tool()), Deny)


async def test_front_with_yes_allows_every_call_but_no_changed_tool_server_or_endless_turn() -> None:
    frontend = RunFrontend(yes=True)
    assert await frontend.ask(approve_tool("other")) == AllowOnce()
    assert isinstance(await frontend.ask(approve_tool(has_changed=True)), Deny)
    trust, more = TrustServer(server="s", why="w"), ContinueTurn(server="", why="w", rounds=1)
    assert await frontend.ask(trust) == trust.refusal()
    assert await frontend.ask(more) is False


@pytest.mark.parametrize(
    ("server", "tool", "rule"),
    [("fs", "read", "fs/read"), ("github/search", "t", "github%2Fsearch/t"), ("fs", "*", "fs/%2A"),
     ("fs", "a;rm -rf", "'fs/a;rm -rf'"), ("fs", "a\x1b[2J", "'fs/a%1B[2J'")],
)  # fmt: skip
def test_the_hint_after_a_refusal_is_the_rule_for_this_tool_only(server: str, tool: str, rule: str) -> None:
    assert quote_rule(server, tool) == rule
    (read,) = parse_rules((rule.strip("'"),))
    assert (read.server, read.exact_tool) == (server, tool)
