"""One tool call: resolve, consent, call, render, tell, and the part that goes back to the model."""

import time
from typing import Any

import anyio

from mcphost.data import Data
from mcphost.errors import ConnectionLost, DeadlinePassed, McpHostError
from mcphost.host.consent import Consent
from mcphost.host.events import ToolFinished, ToolProgress, ToolProposed, ToolStarted
from mcphost.host.feed import Feeds
from mcphost.host.questions import Deny
from mcphost.host.results import Rendered, render
from mcphost.host.toolbox import Offered, Toolbox
from mcphost.llm.parts import ToolReturnPart, ToolUsePart
from mcphost.protocol.notices import LogMessage, Progress
from mcphost.protocol.tools import CallTool, ToolResult
from mcphost.protocol.wire import Notice


class Called(Data, frozen=True):
    """What one proposed call came to."""

    part: ToolReturnPart
    declined: bool = False
    bad: bool = False


class ToolCalls:
    """Runs calls; several may run side by side."""

    def __init__(self, toolbox: Toolbox, consent: Consent, feeds: Feeds, parallel: int) -> None:
        self._toolbox = toolbox
        self._consent = consent
        self._feeds = feeds
        self._limit = anyio.CapacityLimiter(parallel)

    async def run(self, use: ToolUsePart, why: str) -> Called:
        """One call the model proposed. Raises nothing but StoreError and cancellation."""
        offered = self._toolbox.resolve(use.name)
        server, tool = (offered.connection.config.name, offered.listed.tool.name) if offered else ("", use.name)
        self._feeds.put(ToolProposed(use.id, server, tool, use.arguments, use.raw))
        if offered is None:
            return self._bad(use, server, tool, f"There is no tool named {use.name!r} now.")
        if use.arguments is None:
            return self._bad(use, server, tool, "The arguments are not a JSON object; the tool was not called.")
        try:
            verdict = await self._consent.decide(offered, use.arguments, call=use.id, why=why)
        except BaseException:
            self._finish(use.id, server, tool, "stopped", "Stopped before it ran.")
            raise
        if isinstance(verdict, Deny):
            text = "The user declined this call; the tool did not run."
            if verdict.reason:
                text = f"{text} Reason: {verdict.reason}"
            self._finish(use.id, server, tool, "declined", verdict.reason or "Declined.")
            return Called(_part(use, server, tool, text, is_error=True), declined=True)
        async with self._limit:
            return await self._call(use, offered, verdict.arguments, verdict.by)

    async def _call(self, use: ToolUsePart, offered: Offered, arguments: dict[str, Any], by: str) -> Called:
        server, tool = offered.connection.config.name, offered.listed.tool.name
        try:
            result, rendered, _ = await self.perform(use.id, offered, arguments, by)
        except McpHostError as error:
            text = f"The call failed: {error.message}"
            if isinstance(error, ConnectionLost | DeadlinePassed):
                text = f"{text} The tool may have run."
            return Called(_part(use, server, tool, text, is_error=True))
        part = ToolReturnPart(use.id, use.name, rendered.for_model, result.is_error, server, tool, rendered.images)
        return Called(part)

    async def perform(
        self, call: str, offered: Offered, arguments: dict[str, Any], by: str
    ) -> tuple[ToolResult, Rendered, float]:
        """Send a call that was allowed and tell how it went. Raises ServerError, Declined."""
        server, tool = offered.connection.config.name, offered.listed.tool.name
        self._feeds.put(ToolStarted(call, server, tool, arguments, by))
        began = time.monotonic()

        def heard(notice: Notice) -> None:
            if isinstance(notice, Progress):
                self._feeds.put(ToolProgress(call, server, notice.progress, notice.total, notice.message or ""))
            elif isinstance(notice, LogMessage):
                offered.connection.log(notice)

        try:
            session = await offered.connection.session()
            result = await session.request(CallTool(tool, arguments), on_notice=heard)
        except McpHostError as error:
            self._finish(call, server, tool, "failed", error.message, time.monotonic() - began)
            raise
        except BaseException:
            self._finish(call, server, tool, "stopped", "Stopped; the server was told.", time.monotonic() - began)
            raise
        rendered = render(result)
        seconds = time.monotonic() - began
        self._finish(call, server, tool, "error" if result.is_error else "ok", rendered.text, seconds)
        return result, rendered, seconds

    def _bad(self, use: ToolUsePart, server: str, tool: str, text: str) -> Called:
        self._finish(use.id, server, tool, "failed", text)
        return Called(_part(use, server, tool, text, is_error=True), bad=True)

    def _finish(self, call: str, server: str, tool: str, outcome: Any, text: str, seconds: float = 0.0) -> None:
        self._feeds.put(ToolFinished(call, server, tool, outcome, text, seconds))


def _part(use: ToolUsePart, server: str, tool: str, text: str, *, is_error: bool) -> ToolReturnPart:
    return ToolReturnPart(use.id, use.name, text, is_error, server, tool)
