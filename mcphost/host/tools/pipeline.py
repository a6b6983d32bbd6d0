"""One call that the model proposed: resolve, ask, perform, and the part that goes back to the model."""

from pathlib import Path
from typing import Any

import anyio

from mcphost.errors import McpHostError, ServerError
from mcphost.host.audit.audit_summary import digest
from mcphost.host.consent.policy import Allowed, Consent
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ToolFinished, ToolProposed
from mcphost.host.questions.questions import Deny
from mcphost.host.questions.result_review_questions import Piece
from mcphost.host.reserved_names import RESERVED
from mcphost.host.results import tool_schemas
from mcphost.host.results.tool_schemas import Misfit
from mcphost.host.servers.orphaned_tasks import Progressing
from mcphost.host.servers.tool_registry import Offered, Toolbox
from mcphost.host.tools.builtin_tools import OwnTools
from mcphost.host.tools.executor import (
    LISTED_ANEW,
    NoLongerAllowed,
    OtherAccount,
    Performing,
    ToolChanged,
    log_call,
    told,
)
from mcphost.host.tools.result_review import RAN, Reviewing
from mcphost.host.tools.tool_outcome import Called, part, with_edit
from mcphost.llm.messages import ImagePart, Outcome, ToolReturnPart, ToolUsePart
from mcphost.sandbox.schema_validator import Checker
from mcphost.sanitize import readable
from mcphost.serialization import replace

STOPPED = "The user stopped this call before its result came."


OFF = "The user switched this tool off; it was not called."


class ToolCalls:
    """Runs calls; several may run side by side."""

    def __init__(
        self,
        toolbox: Toolbox,
        consent: Consent,
        feeds: Feeds,
        checker: Checker,
        own: OwnTools,
        performing: Performing,
        reviewing: Reviewing,
        parallel: int,
    ) -> None:
        self._performing = performing
        self._reviewing = reviewing
        self._toolbox = toolbox
        self._consent = consent
        self._feeds = feeds
        self._checker = checker
        self._own = own
        self._limit = anyio.CapacityLimiter(parallel)

    async def run(self, use: ToolUsePart, why: str) -> Called:
        """One call the model proposed. Raises nothing but cancellation."""
        if use.name in RESERVED and self._own.offers(use.name):
            return await self._own.run(use, why)
        offered = self._toolbox.resolve(use.name)
        server, tool = (offered.connection.config.name, offered.listed.name) if offered else ("", use.name)
        self._feeds.put(ToolProposed(use.id, server, tool, use.arguments, use.raw))
        if offered is None:
            return self._bad(use, server, tool, f"There is no tool named {use.name!r} now.")
        if offered.is_off():
            return self._bad(use, server, tool, OFF)
        if use.arguments is None:
            return self._bad(use, server, tool, "The arguments are not a JSON object; the tool was not called.")
        return await self._asked_and_called(use, offered, use.arguments, why)

    async def _asked_and_called(
        self, use: ToolUsePart, offered: Offered, arguments: dict[str, Any], why: str
    ) -> Called:
        """A tool that turns out to be another one when it is called is asked about again, as what it is then."""
        server, tool = offered.connection.config.name, offered.listed.name
        changed = False
        while True:
            try:
                offered = await self._as_listed(use, offered)
                verdict = await self._held_back(offered) or await self._agreed(
                    use.id, offered, arguments, why, changed=changed
                )
            except ServerError as error:
                return self._bad(use, server, tool, error.message)
            except BaseException:
                self._finish(use.id, server, tool, "stopped", "Stopped before it ran.")
                log_call(server, tool, arguments, "not asked for to the end", "stopped")
                raise
            if isinstance(verdict, str):
                return self._bad(use, server, tool, verdict)
            if isinstance(verdict, Deny):
                return self._declined(use, server, tool, verdict.reason)
            arguments = verdict.arguments
            try:
                return with_edit(await self._call(use, offered, arguments, verdict, why), use, arguments)
            except ToolChanged as error:
                # The consent was for what the tool was: resolve it anew and ask about what it is.
                now = self._toolbox.resolve(use.name)
                changed = changed or not isinstance(error, OtherAccount | NoLongerAllowed)
                if now is None or now.is_off():
                    return self._bad(use, server, tool, OFF if now else error.message)
                offered = now

    async def _agreed(
        self, call: str, offered: Offered, arguments: dict[str, Any], why: str, *, changed: bool
    ) -> Allowed | Deny | str:
        """What came of asking; a sentence when the arguments do not fit. Edited ones are asked about again."""
        edited = False

        async def fits(given: dict[str, Any]) -> bool:
            return not await self.misfit(offered, given)

        while True:
            fault = await self.misfit(offered, arguments)
            if fault and not edited:
                return fault.sentence
            verdict = await self._consent.decide(
                offered, arguments, call=call, why=why, changed=changed, fault=fault.sentence, fits=fits
            )
            if isinstance(verdict, Deny):
                return verdict
            if digest(verdict.arguments) == digest(arguments):
                return fault.sentence or verdict
            arguments, edited = verdict.arguments, True
            if not await self.misfit(offered, arguments):
                return verdict

    async def _call(
        self, use: ToolUsePart, offered: Offered, arguments: dict[str, Any], allowed: Allowed, why: str
    ) -> Called:
        """Raises ToolChanged; any other failure is in the part."""
        server, tool = offered.connection.config.name, offered.listed.name
        review = offered.connection.config.review_results
        try:
            # What waits to be reviewed holds up no other call.
            async with self._limit:
                outcome = await self._performing.perform(use.id, offered, arguments, allowed.by, allowed.grant)
        except ToolChanged:
            raise
        except McpHostError as error:
            text = f"The call failed: {told(error)}"
            if not review or not isinstance(error, ServerError):
                return Called(part(use, server, tool, text, outcome="failed"))
            parts, failed = (Piece(kind="error", text=text, size=len(text)),), True
        else:
            parts, failed = outcome.parts, outcome.failed
            if not review:
                rendered, kept = outcome.rendered, outcome.kept
                text = rendered.for_model(Path(kept).stem)
                return Called(_returned(use, server, tool, text, rendered.images, kept, failed=failed))
        return await self._reviewed(use, offered, arguments, parts, why, failed=failed)

    async def _reviewed(
        self, use: ToolUsePart, offered: Offered, arguments: dict[str, Any], parts: tuple[Piece, ...], why: str,
        *, failed: bool,
    ) -> Called:  # fmt: skip
        """What the model gets of a call that ended, once the user has read that."""
        server, tool = offered.connection.config.name, offered.listed.name
        reviewed = await self._reviewing.review(server, use.id, tool, arguments, parts, why, is_error=failed)
        if reviewed.instead:
            self._reviewing.tell(use.id, server, tool, reviewed, parts, "")
            return Called(part(use, server, tool, reviewed.instead, outcome="ok"), declined=True)
        rendered, kept = await self._own.results.keep(reviewed.rendered)
        self._reviewing.tell(use.id, server, tool, reviewed, parts, kept)
        text = rendered.for_model(Path(kept).stem)
        returned = _returned(use, server, tool, text, rendered.images, kept, failed=failed)
        return Called(replace(returned, reviewed=True))

    def stopped(self, use: ToolUsePart) -> ToolReturnPart:
        """What the model gets of a call that was stopped: that it ran, when it did, and nothing of its result."""
        text = RAN if self._reviewing.cut(use.id) else STOPPED
        return ToolReturnPart(use.id, use.name, text, is_error=True, outcome="stopped")

    async def _as_listed(self, use: ToolUsePart, offered: Offered) -> Offered:
        """The tool as its server lists it after a change that it told of: what is asked about is what it is now.

        Raises ServerError when it cannot be listed in time.
        """
        connection = offered.connection
        if connection.is_settled:
            return offered
        event = Progressing(use.id, connection.config.name).event(LISTED_ANEW)
        if event is not None:
            self._feeds.put(event)
        await connection.settle()
        return self._toolbox.resolve(use.name) or offered

    async def _held_back(self, offered: Offered) -> str:
        """Wait until the user has looked at a tool that changed; what to say when it stays held back."""
        name = offered.listed.name
        if await offered.connection.drift.decided(name):
            return ""
        return f"The tool {name!r} changed and is held back until the user has looked at it; it was not called."

    async def misfit(self, offered: Offered, arguments: dict[str, Any]) -> Misfit:
        """What must be corrected before anybody is asked; nothing when the arguments fit or nobody can tell."""
        tool = offered.listed.tool
        verdict = await tool_schemas.arguments(self._checker, tool, arguments)
        if verdict.outcome == "unchecked":
            offered.connection.warn(f"The arguments for the tool {tool.name!r} were not checked: {verdict.sentence}.")
        if verdict.outcome != "misfit":
            return Misfit()
        words = f"The arguments do not fit the tool's inputSchema; the tool was not called. {verdict.sentence}."
        return Misfit(readable(words), verdict.faults)

    def _declined(self, use: ToolUsePart, server: str, tool: str, reason: str) -> Called:
        text = "The user declined this call; the tool did not run."
        if reason:
            text = f"{text} Reason: {reason}"
        self._finish(use.id, server, tool, "declined", reason or "Declined.")
        log_call(server, tool, use.arguments, "declined", "not run")
        return Called(part(use, server, tool, text, outcome="declined"), declined=True)

    def _bad(self, use: ToolUsePart, server: str, tool: str, text: str) -> Called:
        self._finish(use.id, server, tool, "failed", text)
        log_call(server, tool, use.arguments, "not asked for", "not run")
        return Called(part(use, server, tool, text, outcome="failed"), bad=True)

    def _finish(self, call: str, server: str, tool: str, outcome: Any, text: str, seconds: float = 0.0) -> None:
        self._feeds.put(ToolFinished(call, server, tool, outcome, text, seconds))


def _returned(
    use: ToolUsePart, server: str, tool: str, text: str, images: tuple[ImagePart, ...], kept: str, *, failed: bool
) -> ToolReturnPart:
    """Return the part for a call that the server answered."""
    outcome: Outcome = "error" if failed else "ok"
    return ToolReturnPart(use.id, use.name, text, failed, server, tool, images, kept, outcome=outcome)
