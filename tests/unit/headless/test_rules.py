"""--allow rules cover what they say and nothing else."""

import pytest

from mcphost.errors import UsageError
from mcphost.headless.rules import parse
from mcphost.headless.run import RunFront
from mcphost.host.questions import AllowOnce, ApproveTool, ContinueTurn, Deny, TrustServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("rule", "server", "tool", "covered"),
    [
        ("fs", "fs", "anything", True),
        ("fs", "fs2", "x", False),
        ("fs", "FS", "x", False),
        ("fs/read", "fs", "read", True),
        ("fs/read", "fs", "read_all", False),
        ("fs/read*", "fs", "read_all", True),
        ("fs/*", "fs", "", True),
        ("fs/*_file", "fs", "read_file", True),
        ("fs/*_file", "fs", "read_files", False),
        ("fs/a.c", "fs", "abc", False),
        ("fs/[a]", "fs", "a", False),
        ("fs/read*", "fs", "read\nx", True),
        ("a/b/c", "a/b", "c", True),
        ("a/b", "a/b", "anything", True),
    ],
)
def test_rule_covers(rule: str, server: str, tool: str, covered: bool) -> None:
    assert parse((rule,)).allow(server, tool) is covered


@pytest.mark.parametrize("rule", ["", " ", "/x", "fs/", "*", "f*/x", "fs/t?path=under:/x"])
def test_rule_that_cannot_be_meant_is_refused(rule: str) -> None:
    with pytest.raises(UsageError, match="rule"):
        parse((rule,))


def approve(server: str = "fs", tool: str = "read", *, drifted: bool = False) -> ApproveTool:
    return ApproveTool(server=server, why="w", call="c", tool=tool, arguments={}, drifted=drifted)


async def test_front_allows_what_a_rule_covers_and_declines_the_rest() -> None:
    front = RunFront(parse(("fs/read",)))
    assert await front.ask(approve()) == AllowOnce()
    assert isinstance(await front.ask(approve(tool="write")), Deny)


async def test_front_with_yes_allows_every_call_but_no_changed_tool_server_or_endless_turn() -> None:
    front = RunFront(parse(("fs",)), yes=True)
    assert await front.ask(approve("other")) == AllowOnce()
    assert isinstance(await front.ask(approve(drifted=True)), Deny)
    trust, more = TrustServer(server="s", why="w"), ContinueTurn(server="", why="w", rounds=1)
    assert await front.ask(trust) == trust.refusal()
    assert await front.ask(more) is False
