"""One call that was allowed: sent as what it was allowed as, its result checked, how it ended told and recorded."""

import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

from mcphost.client.session import Session
from mcphost.errors import ConnectionLost, Declined, McpHostError, NotSent, Refused, ServerError
from mcphost.host.audit.audit_log import Act, Effect, Journal
from mcphost.host.audit.audit_summary import digest
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ToolFinished, ToolStarted
from mcphost.host.questions.result_review_questions import Piece
from mcphost.host.results.presentation import Rendered, joined, read
from mcphost.host.results.tool_schemas import Checked, judged
from mcphost.host.servers.orphaned_tasks import Kept, LeftTasks, Progressing
from mcphost.host.servers.tool_registry import Offered
from mcphost.host.tools.result_tool import ResultTool
from mcphost.protocol.base import Notice
from mcphost.protocol.jsonrpc import INVALID_PARAMS
from mcphost.protocol.notifications import LogMessage, Progress
from mcphost.protocol.tasks import TaskChanged
from mcphost.protocol.tools import CallTool, ToolResult
from mcphost.sandbox.schema_validator import Checker
from mcphost.serialization import Data, dumps

MAY_HAVE_RUN = "The tool may have run."
LISTED_ANEW = Progress(progress_token="", progress=0, message="The server's tools changed and are being listed anew.")
LOGGED_LIMIT = 4_000
_log = logging.getLogger(__name__)


class Performed(Data, frozen=True):
    """A call that was made and answered; `failed` when the tool says so, or when it broke its own promise.

    `kept` is the file that holds all of a result that is too big for the model.
    """

    result: ToolResult
    parts: tuple[Piece, ...]
    rendered: Rendered
    checked: Checked
    seconds: float
    failed: bool
    kept: str = ""


class ToolChanged(Declined):
    """The tool is no longer what the consent was given to."""


class OtherAccount(ToolChanged):
    """The server is used with another account than the one that the consent was given for."""


class NoLongerAllowed(ToolChanged):
    """The grant that allowed the call was revoked before it was sent."""


class Performing:
    """Sends calls and hears of them to their end."""

    def __init__(
        self, feeds: Feeds, checker: Checker, results: ResultTool, left: LeftTasks, journal: Journal,
        stands: Callable[[str], bool],
    ) -> None:  # fmt: skip
        """`stands` says whether the grant with that id still counts; "" is none."""
        self._stands = stands
        self._feeds = feeds
        self._checker = checker
        self._results = results
        self._left = left
        self._journal = journal
        self._by_hand = itertools.count(1)

    async def by_hand(self, offered: Offered, arguments: dict[str, Any]) -> Performed:
        """The user's own call; raises what `perform` does."""
        return await self.perform(f"hand-{next(self._by_hand)}", offered, arguments, "user")

    async def perform(
        self, call: str, offered: Offered, arguments: dict[str, Any], by: str, grant: str = ""
    ) -> Performed:
        """Send a call that was allowed, check what came, and tell how it went. Raises ServerError, Declined.

        Right before each sending the definition, the account and the grant are looked at, also when the call is sent
        again with answers, or because somebody signed in: what was allowed is what runs. Otherwise ToolChanged is
        raised, and the ledger has an end that says so.
        """
        server, tool = offered.connection.config.name, offered.listed.name
        kept = self._left.begin(server, offered.connection.whose, tool)
        act = Act(kind="tool", server=server, subject=tool, call=call, arguments=arguments,
                  definition=offered.listed.digest)  # fmt: skip
        effect = Effect(self._journal, act)
        sending = _Sending(self._feeds, call, offered, arguments, by, kept, effect, lambda: self._stands(grant))
        try:
            await offered.connection.freshen()
            await sending.settle()
            session = await offered.connection.session()
            await effect.starts(who=by, grant=grant)
            sending.check()
            self._feeds.put(ToolStarted(call, server, tool, arguments, by))
            session, result = await sending.through(session, CallTool(tool, arguments))
            kept.over(None)
            revision = session.facts.revision
            checked = await judged(self._checker, offered.listed.tool, result, revision)
            parts = await read(result, null_counts=revision.has_any_structure, note=checked.text)
        except ToolChanged as error:
            kept.over(error)
            effect.ended(sending.unsent(error))
            raise
        except McpHostError as error:
            kept.over(error)
            if isinstance(error, Refused) and error.code == INVALID_PARAMS:
                offered.connection.doubt()
            sending.ended("failed", Rendered(told(error)))
            if told(error) != error.message and "may have" not in error.hint:
                error.hint = f"{error.hint} {MAY_HAVE_RUN}".strip()
            raise
        except BaseException as error:
            kept.over(error)
            sending.ended("stopped", Rendered("Stopped; the server was told."))
            raise
        rendered, kept = joined(parts), ""
        # What the user calls by hand goes to no model; what the user reviews is kept once that is over, if it is given.
        if by != "user" and not offered.connection.config.review_results:
            rendered, kept = await self._results.keep(rendered)
        failed = result.is_error or checked.outcome == "misfit"
        seconds = sending.ended("error" if failed else "ok", rendered, _size(result), kept)
        return Performed(result, parts, rendered, checked, seconds, failed, kept)


class _Sending:
    """One call on its way: what is heard of it, whether it may be sent again, and how it ended."""

    def __init__(
        self, feeds: Feeds, call: str, offered: Offered, arguments: dict[str, Any], by: str, kept: Kept, effect: Effect,
        stands: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._stands = stands
        self._account = offered.account
        self._sent = False
        self._effect = effect
        self._feeds = feeds
        self._call = call
        self._offered = offered
        self._arguments = arguments
        self._by = by
        self._kept = kept
        self._began = time.monotonic()
        self._progress = Progressing(call, offered.connection.config.name)

    def heard(self, notice: Notice) -> None:
        """What the server says meanwhile."""
        event = self._progress.event(notice)
        if event is not None:
            self._feeds.put(event)
        if isinstance(notice, TaskChanged):
            self._kept.heard(notice.task)
        elif isinstance(notice, LogMessage):
            self._offered.connection.log(notice, self._call)

    async def through(self, session: Session, call: CallTool) -> tuple[Session, ToolResult]:
        """The result, and the session that gave it: another one when the first had ended before anything was sent."""
        for last in (False, True):
            try:
                return session, await session.request(call, on_notice=self.heard, again=self.again)
            except ConnectionLost as error:
                if last or error.may_have_run or isinstance(error, NotSent):
                    raise
                session = await self._offered.connection.session()
                await self.again(True)
        raise AssertionError("the second time is the last")

    async def again(self, doubtful: bool) -> None:
        """See AgainFn. Raises ToolChanged."""
        if doubtful:
            await self._offered.connection.relist()
            # Whoever nobody was signed in for may just have been asked to sign in for this very call.
            self._account = self._offered.account or self._offered.connection.account
        await self.settle()
        try:
            self.check()
        except ToolChanged as error:
            self._effect.ended(self.unsent(error))
            self.ended("failed", Rendered(error.message))
            raise
        self._sent = True

    async def settle(self) -> None:
        """Wait for the tools of a server that said that they changed. Raises ServerError."""
        if not self._offered.connection.is_settled:
            self.heard(LISTED_ANEW)
            await self._offered.connection.settle()

    def check(self) -> None:
        """Whether the call may be sent now. Raises ToolChanged."""
        _check(self._offered, self._account)
        if not self._stands():
            raise NoLongerAllowed(
                f"What allowed the tool {self._offered.listed.name!r} of {self._offered.connection.config.name!r} was "
                "revoked before the call was sent; it did not run.",
                "Repeat the call to be asked about it.",
            )

    def unsent(self, error: ToolChanged) -> str:
        """How the call ended, for the ledger."""
        why: dict[type[ToolChanged], str] = {
            NoLongerAllowed: "its grant was revoked", OtherAccount: "another account is used",
        }  # fmt: skip
        return f"not sent{' again' * self._sent}: {why.get(type(error), 'the tool changed')}"

    def ended(self, outcome: Any, shown: Rendered, size: int = 0, kept: str = "") -> float:
        """Tell and record it; after how many seconds that was."""
        self._effect.ended(outcome, size=size)
        seconds = time.monotonic() - self._began
        server, tool = self._offered.connection.config.name, self._offered.listed.name
        text = shown.for_people
        self._feeds.put(ToolFinished(self._call, server, tool, outcome, text, seconds, kept, shown.pictures))
        log_call(server, tool, self._arguments, self._by, f"{outcome} after {seconds:.2f} s")
        return seconds


def _check(offered: Offered, account: str) -> None:
    """Whether the tool is still what the call was allowed for, and used with that account, unless nobody is signed in
    now. Raises ToolChanged."""
    now = offered.connection.account
    if now not in ("", account):
        raise OtherAccount(
            f"The server {offered.connection.config.name!r} is used with the account {now!r} now, not with "
            f"{account or 'none'!r}, which the call was allowed for; it did not run.",
            "Repeat the call, if it is meant for that account.",
        )
    if not offered.stands:
        raise ToolChanged(
            f"The tool {offered.listed.name!r} of {offered.connection.config.name!r} is not what it was when the "
            "call was allowed; it did not run.",
            "Look at it again, and repeat the call.",
        )


def _size(result: ToolResult) -> int:
    return len(bytes(result.raw_content)) + len(bytes(result.structured_content))


def told(error: McpHostError) -> str:
    """What the user and the model are told of a failed call."""
    if isinstance(error, ServerError) and error.may_have_run:
        return f"{error.message} {MAY_HAVE_RUN}"
    return error.message


def log_call(server: str, tool: str, arguments: dict[str, Any] | None, decision: str, outcome: str) -> None:
    """Log who wanted what of whom, what allowed it and how it ended; the log has the time, and takes secrets out.

    Of the arguments the size and the digest that the ledger has, too; their text only at the level debug.
    """
    text = dumps(arguments)
    if _log.isEnabledFor(logging.DEBUG):
        given = text[:LOGGED_LIMIT]
    else:
        given = f"of {len(text)} characters (sha256 {digest(arguments)})" if arguments is not None else "none"
    _log.info("tool %r of %r, arguments %s, decision: %s, outcome: %s", tool, server, given, decision, outcome)
