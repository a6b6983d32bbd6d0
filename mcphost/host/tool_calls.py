"""One tool call: resolve, consent, call, render, tell, and the part that goes back to the model."""

import logging
import time
from typing import Any

import anyio

from mcphost.clean import readable
from mcphost.data import Data, dumps
from mcphost.errors import Declined, McpHostError, Refused, ServerError
from mcphost.host import outputs, skill_tool
from mcphost.host.called import Called, part
from mcphost.host.consent import Consent
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.feed import Feeds
from mcphost.host.left_tasks import LeftTasks, Progressing
from mcphost.host.outputs import Checked, judged
from mcphost.host.questions import Deny
from mcphost.host.results import Rendered, render
from mcphost.host.skill_tool import SkillTool
from mcphost.host.toolbox import Offered, Toolbox
from mcphost.llm.parts import ToolReturnPart, ToolUsePart
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.protocol.notices import LogMessage
from mcphost.protocol.tasks import TaskChanged
from mcphost.protocol.tools import CallTool, ToolResult
from mcphost.protocol.wire import Notice
from mcphost.schemas.checker import Checker

MAY_HAVE_RUN = "The tool may have run."
LOGGED_LIMIT = 4_000
_log = logging.getLogger(__name__)


class Performed(Data, frozen=True):
    """A call that was made and answered; `failed` when the tool says so, or when it broke its own promise."""

    result: ToolResult
    rendered: Rendered
    checked: Checked
    seconds: float
    failed: bool


class ToolChanged(Declined):
    """The tool is no longer what the consent was given to."""


class ToolCalls:
    """Runs calls; several may run side by side."""

    def __init__(
        self,
        toolbox: Toolbox,
        consent: Consent,
        feeds: Feeds,
        checker: Checker,
        skills: SkillTool,
        left: LeftTasks,
        parallel: int,
    ) -> None:
        self._left = left
        self._toolbox = toolbox
        self._consent = consent
        self._feeds = feeds
        self._checker = checker
        self._skills = skills
        self._limit = anyio.CapacityLimiter(parallel)

    async def run(self, use: ToolUsePart, why: str) -> Called:
        """One call the model proposed. Raises nothing but cancellation."""
        if use.name == skill_tool.NAME:
            return await self._skills.run(use, why)
        offered = self._toolbox.resolve(use.name)
        server, tool = (offered.connection.config.name, offered.listed.tool.name) if offered else ("", use.name)
        self._feeds.put(ToolProposed(use.id, server, tool, use.arguments, use.raw))
        if offered is None:
            return self._bad(use, server, tool, f"There is no tool named {use.name!r} now.")
        if use.arguments is None:
            return self._bad(use, server, tool, "The arguments are not a JSON object; the tool was not called.")
        changed = False
        arguments = use.arguments
        while True:
            try:
                fault = await self._misfit(offered, arguments)
                if fault:
                    return self._bad(use, server, tool, fault)
                verdict = await self._consent.decide(offered, arguments, call=use.id, why=why, changed=changed)
            except BaseException:
                self._finish(use.id, server, tool, "stopped", "Stopped before it ran.")
                _log_call(server, tool, arguments, "not asked for to the end", "stopped")
                raise
            if isinstance(verdict, Deny):
                return self._declined(use, server, tool, verdict.reason)
            arguments = verdict.arguments
            try:
                async with self._limit:
                    return await self._call(use, offered, arguments, verdict.by)
            except ToolChanged as error:
                # The consent was for what the tool was: resolve it anew and ask about what it is.
                offered, changed = self._toolbox.resolve(use.name), True
                if offered is None:
                    return self._bad(use, server, tool, error.message)

    async def _call(self, use: ToolUsePart, offered: Offered, arguments: dict[str, Any], by: str) -> Called:
        """Raises ToolChanged; any other failure is in the part."""
        server, tool = offered.connection.config.name, offered.listed.tool.name
        try:
            outcome = await self.perform(use.id, offered, arguments, by)
        except ToolChanged:
            raise
        except McpHostError as error:
            return Called(part(use, server, tool, f"The call failed: {_told(error)}", is_error=True))
        rendered = outcome.rendered
        return Called(
            ToolReturnPart(use.id, use.name, rendered.for_model, outcome.failed, server, tool, rendered.images)
        )

    async def perform(self, call: str, offered: Offered, arguments: dict[str, Any], by: str) -> Performed:
        """Send a call that was allowed, check what came, and tell how it went. Raises ServerError, Declined.

        Nothing is awaited between the look at the definition and the sending, so what was allowed is what runs; when
        it changed meanwhile, ToolChanged is raised and nothing was sent or told.
        """
        server, tool = offered.connection.config.name, offered.listed.tool.name
        began = time.monotonic()
        progress = Progressing(call, server)
        kept = self._left.begin(server, offered.connection.digest, tool)

        def heard(notice: Notice) -> None:
            event = progress.event(notice)
            if event is not None:
                self._feeds.put(event)
            if isinstance(notice, TaskChanged):
                kept.heard(notice.task)
            elif isinstance(notice, LogMessage):
                offered.connection.log(notice, call)

        def ended(outcome: Any, text: str) -> float:
            seconds = time.monotonic() - began
            self._finish(call, server, tool, outcome, text, seconds)
            _log_call(server, tool, arguments, by, f"{outcome} after {seconds:.2f} s")
            return seconds

        try:
            await offered.connection.freshen()
            session = await offered.connection.session()
            if not offered.stands:
                raise ToolChanged(
                    f"The tool {tool!r} of {server!r} is not what it was when the call was allowed; it did not run.",
                    "Look at it again, and repeat the call.",
                )
            self._feeds.put(ToolStarted(call, server, tool, arguments, by))
            result = await session.request(CallTool(tool, arguments), on_notice=heard)
            kept.over(None)
            revision = session.facts.revision
            checked = await judged(self._checker, offered.listed.tool, result, revision)
        except ToolChanged:
            raise
        except McpHostError as error:
            kept.over(error)
            if isinstance(error, Refused) and error.code == INVALID_PARAMS:
                offered.connection.doubt()
            ended("failed", _told(error))
            if _told(error) != error.message and "may have" not in error.hint:
                error.hint = f"{error.hint} {MAY_HAVE_RUN}".strip()
            raise
        except BaseException as error:
            kept.over(error)
            ended("stopped", "Stopped; the server was told.")
            raise
        rendered = render(result, null_counts=revision.has_any_structure, note=checked.text)
        failed = result.is_error or checked.outcome == "misfit"
        return Performed(result, rendered, checked, ended("error" if failed else "ok", rendered.for_people), failed)

    async def _misfit(self, offered: Offered, arguments: dict[str, Any]) -> str:
        """What the model must correct before anybody is asked; empty when the arguments fit or nobody can tell."""
        tool = offered.listed.tool
        verdict = await outputs.arguments(self._checker, tool, arguments)
        if verdict.outcome == "unchecked":
            offered.connection.warn(f"The arguments for the tool {tool.name!r} were not checked: {verdict.sentence}.")
        if verdict.outcome != "misfit":
            return ""
        return readable(
            f"The arguments do not fit the tool's inputSchema; the tool was not called. {verdict.sentence}."
        )

    def _declined(self, use: ToolUsePart, server: str, tool: str, reason: str) -> Called:
        text = "The user declined this call; the tool did not run."
        if reason:
            text = f"{text} Reason: {reason}"
        self._finish(use.id, server, tool, "declined", reason or "Declined.")
        _log_call(server, tool, use.arguments, "declined", "not run")
        return Called(part(use, server, tool, text, is_error=True), declined=True)

    def _bad(self, use: ToolUsePart, server: str, tool: str, text: str) -> Called:
        self._finish(use.id, server, tool, "failed", text)
        _log_call(server, tool, use.arguments, "not asked for", "not run")
        return Called(part(use, server, tool, text, is_error=True), bad=True)

    def _finish(self, call: str, server: str, tool: str, outcome: Any, text: str, seconds: float = 0.0) -> None:
        self._feeds.put(ToolFinished(call, server, tool, outcome, text, seconds))


def _told(error: McpHostError) -> str:
    """What the user and the model are told of a failed call."""
    if isinstance(error, ServerError) and error.may_have_run:
        return f"{error.message} {MAY_HAVE_RUN}"
    return error.message


def _log_call(server: str, tool: str, arguments: dict[str, Any] | None, decision: str, outcome: str) -> None:
    """Who wanted what of whom, what allowed it and how it ended; the log has the time, and takes secrets out."""
    given = dumps(arguments)[:LOGGED_LIMIT]
    _log.info("tool %r of %r, arguments %s, decision: %s, outcome: %s", tool, server, given, decision, outcome)
