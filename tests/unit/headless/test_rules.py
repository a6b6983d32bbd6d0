"""What answers when nobody is there: `--yes` for calls, refusal for everything else."""

import pytest

from mcphost.errors import UsageError
from mcphost.headless.rules import parse
from mcphost.headless.run import RunFront
from mcphost.host.questions.questions import AllowOnce, ApproveTool, ContinueTurn, Deny, TrustServer

pytestmark = pytest.mark.anyio


def test_a_text_that_can_be_meant_in_two_ways_gives_both_rules() -> None:
    rules = parse(("a/b/c", "fs"))
    assert [(rule.server, rule.tool) for rule in rules] == [("a", "b/c"), ("a/b", "c"), ("a/b/c", ""), ("fs", "")]


def test_a_rule_that_cannot_be_meant_is_refused() -> None:
    with pytest.raises(UsageError, match="rule"):
        parse(("fs", "fs/t?n"))


def approve(server: str = "fs", *, drifted: bool = False) -> ApproveTool:
    return ApproveTool(server=server, why="w", call="c", tool="read", arguments={}, drifted=drifted)


async def test_front_declines_every_call_that_is_asked_about() -> None:
    assert isinstance(await RunFront().ask(approve()), Deny)


async def test_front_with_yes_allows_every_call_but_no_changed_tool_server_or_endless_turn() -> None:
    front = RunFront(yes=True)
    assert await front.ask(approve("other")) == AllowOnce()
    assert isinstance(await front.ask(approve(drifted=True)), Deny)
    trust, more = TrustServer(server="s", why="w"), ContinueTurn(server="", why="w", rounds=1)
    assert await front.ask(trust) == trust.refusal()
    assert await front.ask(more) is False
