"""On its own: for one conversation, tools the user picked run unasked, within a budget, until anybody ends it."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.consent.tool_identity import Subject, reads_only, subject_of
from mcphost.host.event_queue import Feeds
from mcphost.host.events import AutonomyChanged
from mcphost.host.servers.tool_registry import Offered
from mcphost.llm.model import Usage
from mcphost.serialization import Data, replace

MOST_CALLS = 1_000
MOST_SECONDS = 8 * 3_600
MOST_TOKENS = 50_000_000
LIMITS = ("calls", "seconds", "tokens")


class Budget(Data, frozen=True, kw_only=True):
    """What may be used before somebody is asked again: tool calls, seconds, and tokens of the model."""

    calls: int = 50
    seconds: float = 1_800
    tokens: int = 500_000


class Running(Data, frozen=True, kw_only=True):
    """The mode while it is on: what is left of its budget, how many tools it covers, and of which servers."""

    left: Budget
    of: Budget
    tools: int
    servers: tuple[str, ...]


_Key = tuple[str, str, str, str, str]


class Autonomy:
    """Only tools that their servers claim to be read-only can be picked, one by one, as they are defined now.

    A claim is not believed for being made: the user picked the tool. Whatever else a call needs is asked as ever, and
    what the configuration never allows stays forbidden. It ends with its budget, with the conversation, by `stop`.
    """

    def __init__(
        self,
        offered: Callable[[], Iterable[Offered]],
        conversation: Callable[[], object],
        feeds: Feeds,
        journal: Journal,
    ) -> None:
        """`offered` gives what the model can call now; `conversation` the open one, compared by identity."""
        self._offered = offered
        self._conversation = conversation
        self._feeds = feeds
        self._journal = journal
        self._tasks: TaskGroup | None = None
        self._picked: frozenset[_Key] = frozenset()
        self._budget = self._left = Budget()
        self._until = self._ends = 0.0
        self._in: object = None
        self._scope: anyio.CancelScope | None = None

    def own(self, tasks: TaskGroup) -> None:
        """The group in which its time runs out."""
        self._tasks = tasks

    @property
    def running(self) -> Running | None:
        """How it stands; None when it is off."""
        if self._scope is None:
            return None
        left = replace(self._left, seconds=max(0.0, self._seconds()))
        servers = tuple(sorted({key[0] for key in self._picked}))
        return Running(left=left, of=self._budget, tools=len(self._picked), servers=servers)

    def candidates(self) -> tuple[Offered, ...]:
        """The tools that can be picked now: claimed to be read-only, and not held back."""
        return tuple(one for one in self._offered() if reads_only(one.listed.tool))

    def start(self, tools: Iterable[tuple[str, str]], budget: Budget) -> Running:
        """Let these tools, by server and name, run unasked from now on. Raises UsageError, and then it is as before."""
        _check(budget)
        if self._tasks is None:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        known = {(one.connection.config.name, one.listed.name): one for one in self.candidates()}
        wanted = dict.fromkeys(tools)
        for server, tool in wanted:
            if (server, tool) not in known:
                raise UsageError(
                    f"The tool {tool!r} of {server!r} cannot run unasked.",
                    "Only a tool of a ready server can that the server says is read-only and that has not changed.",
                )
        if not wanted:
            raise UsageError("No tool was picked.", "Name at least one that only reads.")
        self.stop("started anew")
        self._picked = frozenset(_key(subject_of(known[one])) for one in wanted)
        self._budget = self._left = budget
        self._until, self._ends = time.monotonic() + budget.seconds, time.time() + budget.seconds
        self._in = self._conversation()
        self._scope = anyio.CancelScope()
        self._tasks.start_soon(self._run_out, self._scope, name="autonomy")
        tools_of = [f"{server}/{tool}" for server, tool in wanted]
        self._note("on", {"tools": tools_of, "calls": budget.calls, "seconds": budget.seconds, "tokens": budget.tokens})
        self._tell("")
        running = self.running
        assert running is not None  # noqa: S101 - it was just started
        return running

    def stop(self, why: str) -> bool:
        """End it; False when it is off. `why` is one short phrase for people."""
        scope, self._scope = self._scope, None
        if scope is None:
            return False
        scope.cancel()
        self._picked, self._in = frozenset(), None
        self._note("off", {"why": why})
        self._tell(why)
        return True

    def allows(self, subject: Subject, arguments: dict[str, Any]) -> bool:
        """Whether this call may run unasked, which then counts as one call of the budget."""
        del arguments  # a picked tool may be called with any; what is forbidden was looked at before
        if not self._stands() or _key(subject) not in self._picked:
            return False
        self._left = replace(self._left, calls=self._left.calls - 1)
        self._tell("")
        return True

    def goes_on(self) -> bool:
        """Whether the model may go on past its rounds without a question."""
        return self._stands()

    def spent(self, usage: Usage) -> None:
        """The model used so much in the open conversation."""
        if self._stands():
            tokens = self._left.tokens - usage.input_tokens - usage.output_tokens
            self._left = replace(self._left, tokens=max(0, tokens))
            self._stands()

    def _stands(self) -> bool:
        if self._scope is None:
            return False
        why = self._over()
        if why:
            self.stop(why)
        return not why

    def _over(self) -> str:
        if self._in is not self._conversation():
            return "another conversation"
        if self._left.calls <= 0:
            return f"{self._budget.calls} calls were made"
        if self._left.tokens <= 0:
            return f"{self._budget.tokens:,} tokens were used"
        return "its time is over" if self._seconds() <= 0 else ""

    def _seconds(self) -> float:
        """What is left of its time by either clock: one stands still while the machine sleeps, one can be set back."""
        return min(self._until - time.monotonic(), self._ends - time.time())

    async def _run_out(self, scope: anyio.CancelScope) -> None:
        with scope:
            await anyio.sleep(self._budget.seconds)
        if self._scope is scope:
            self.stop("its time is over")

    def _note(self, event: str, detail: dict[str, Any]) -> None:
        self._journal.note(Act(kind="mode", subject="unasked"), event, detail=detail)

    def _tell(self, why: str) -> None:
        now = self.running
        self._feeds.put(
            AutonomyChanged(
                on=now is not None,
                why=why,
                tools=now.tools if now else 0,
                servers=now.servers if now else (),
                calls_left=now.left.calls if now else 0,
                calls=self._budget.calls,
                seconds_left=round(now.left.seconds) if now else 0,
                tokens_left=now.left.tokens if now else 0,
            )
        )


def _key(subject: Subject) -> _Key:
    return subject.server, subject.server_digest, subject.tool, subject.digest, subject.account


def _check(budget: Budget) -> None:
    for name, value, most in (
        ("calls", budget.calls, MOST_CALLS),
        ("seconds", budget.seconds, MOST_SECONDS),
        ("tokens", budget.tokens, MOST_TOKENS),
    ):
        if not 0 < value <= most:
            raise UsageError(f"The budget of {name} is {value:g}, not above 0 and at most {most:,}.")
