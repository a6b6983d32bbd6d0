"""The one consent path for tool calls: grants of this run, stored grants, then the question."""

from collections.abc import Callable
from typing import Any

import anyio

from mcphost.data import Data, replace
from mcphost.errors import StoreError
from mcphost.host.front import Front
from mcphost.host.questions import AllowAlways, AllowOnce, AllowSession, ApproveTool, Deny
from mcphost.host.toolbox import Offered
from mcphost.protocol.tools import ToolAnnotations
from mcphost.store.grants import Grant, Grants


class Allowed(Data, frozen=True):
    """The call may run with these arguments; `by` says what allowed it: once, session, always."""

    by: str
    arguments: dict[str, Any]


class Consent:
    """Decides; an answer that widens also settles the questions about the same tool that already wait."""

    def __init__(self, grants: Grants, front: Front, tell: Callable[[StoreError], None]) -> None:
        """`tell` hears of a store that fails: then nothing counts as allowed for always, and nothing else is lost."""
        self._grants = grants
        self._front = front
        self._tell = tell
        self._this_run: set[Grant] = set()
        self._waiting: dict[Grant, list[anyio.CancelScope]] = {}

    async def decide(
        self, offered: Offered, arguments: dict[str, Any], *, call: str, why: str, changed: bool = False
    ) -> Allowed | Deny:
        """Allow or deny one call; cancelling withdraws the question.

        `changed` says that this very call was allowed already, when the tool was something else.
        """

        def question(kept: Grant | None) -> ApproveTool:
            return _question(offered, arguments, call, why, kept, changed)

        return await self.settle(_key(offered), arguments, question)

    async def settle(
        self, key: Grant, arguments: dict[str, Any], question: Callable[[Grant | None], ApproveTool]
    ) -> Allowed | Deny:
        """Allow or deny what `key` stands for; `question` makes the question from what was once allowed for always."""
        while True:
            if key in self._this_run:
                return Allowed("session", arguments)
            kept = await self._kept(key)
            if kept == key:
                return Allowed("always", arguments)
            verdict = None
            with anyio.CancelScope() as scope:
                self._waiting.setdefault(key, []).append(scope)
                try:
                    verdict = await self._front.ask(question(kept))
                finally:
                    self._waiting[key].remove(scope)
            match verdict:
                case AllowOnce():
                    return Allowed("once", arguments if verdict.arguments is None else verdict.arguments)
                case AllowSession():
                    self._widen(key)
                    return Allowed("session", arguments)
                case AllowAlways():
                    self._widen(key)
                    await self._keep(key)
                    return Allowed("always", arguments)
                case Deny():
                    return verdict
                case None:
                    # Another answer covers this call now; look again.
                    continue

    async def drifted(self, offered: Offered) -> bool:
        """Whether "always" was given to something else than what stands there now. Raises StoreError."""
        key = _key(offered)
        kept = await self._grants.grant(key.server, key.tool)
        return kept is not None and kept != key and key not in self._this_run

    async def _kept(self, key: Grant) -> Grant | None:
        try:
            return await self._grants.grant(key.server, key.tool)
        except StoreError as error:
            self._tell(error)
            return None

    async def _keep(self, key: Grant) -> None:
        try:
            await self._grants.allow(key)
        except StoreError as error:
            self._tell(error)

    def _widen(self, key: Grant) -> None:
        self._this_run.add(key)
        for scope in self._waiting.get(key, ()):
            scope.cancel()


def _key(offered: Offered) -> Grant:
    return Grant(
        offered.connection.config.name, offered.connection.digest, offered.listed.tool.name, offered.listed.digest
    )


def _question(
    offered: Offered, arguments: dict[str, Any], call: str, why: str, kept: Grant | None, changed: bool
) -> ApproveTool:
    tool = offered.listed.tool
    return ApproveTool(
        server=offered.connection.config.name,
        why=why,
        call=call,
        tool=tool.name,
        arguments=arguments,
        description=tool.description or "",
        claims=replace(tool.annotations or ToolAnnotations(), title=tool.label if tool.label != tool.name else None),
        first_use=kept is None,
        drifted=changed or kept is not None,
    )
