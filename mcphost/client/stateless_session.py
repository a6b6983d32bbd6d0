"""Session for 2026-07-28: stamps every request, answers input rounds, listens for changes."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import anyio

from mcphost.client.capability_guard import check_offered
from mcphost.client.change_notifications import Changes
from mcphost.client.client_info import US, capabilities_for
from mcphost.client.pagination import MAX_ITEMS, list_tools
from mcphost.client.requests import Caller, repeated
from mcphost.client.result_cache import METHODS, Freshness, no_credential
from mcphost.client.session import AgainFn, AskContext, NoticeFn, Observer, Responder, ServerFacts, Watch
from mcphost.client.subscriptions import Subscriptions
from mcphost.client.trace_context import NO_TRACE
from mcphost.errors import ConnectionLost, MalformedMessage, Refused, ServerError
from mcphost.protocol.base import Call, Notice
from mcphost.protocol.input_required import COMPLETE, INPUT_REQUIRED, Filter, Listen
from mcphost.protocol.jsonrpc import HEADER_MISMATCH, Message, Notification, Request
from mcphost.protocol.meta import LOG_LEVEL, stamp
from mcphost.protocol.notifications import (
    LogMessage,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
    notice,
)
from mcphost.protocol.prompts import GetPrompt
from mcphost.protocol.resources import ReadResource
from mcphost.protocol.revisions import LATEST_STATELESS
from mcphost.protocol.tasks import TASK, CancelTask, GetTask, ResumeTask, Task, UpdateTask, has_extension
from mcphost.protocol.tools import CallTool, ListTools, ToolPage
from mcphost.serialization import Raw, encode, replace
from mcphost.transport.channel import NO_HEADERS, Channel
from mcphost.transport.throttle import at_leisure

if TYPE_CHECKING:  # with the first server that wants headers, and the first task
    from mcphost.client.parameter_headers import Mirrored
    from mcphost.client.tasks import Followed

R = TypeVar("R")
NAME_HEADER = "Mcp-Name"
SUBSCRIPTION_ID = b"io.modelcontextprotocol/subscriptionId"
TURN_SECONDS = 0.005
MAX_SAID = 20
"""Tools of one page that are said to be left out, each with its reason."""
_ASKING = frozenset({CallTool.METHOD, GetPrompt.METHOD, ReadResource.METHOD})


class StatelessSession:
    """A connection whose every request says who we are; `serve` must run beside it as long as it is used."""

    def __init__(
        self,
        channel: Channel,
        caller: Caller,
        facts: ServerFacts,
        responder: Responder,
        observer: Observer,
        *,
        mirrors: bool = False,
        trace: Mapping[str, str] = NO_TRACE,
        credential: Callable[[], str] = no_credential,
    ) -> None:
        """`mirrors`: the channel is HTTP, where arguments may have to be repeated as headers.

        `trace` is the trace context that every request carries (see `client.trace_context`). `credential` returns a
        digest of the token that requests are made with; private results are cached for that token only.
        """
        self._channel = channel
        self._caller = caller
        self._facts = facts
        self._responder = responder
        self._observer = observer
        self._trace = trace
        self._stamped: tuple[dict[str, Any] | None, bytes] = (None, b"")
        self._log = b""
        self._offered: set[str] = set()  # methods that were found to be negotiated
        self._memory = Freshness(credential)
        self._changes = Changes(self._memory.heard)
        self._subscriptions = Subscriptions(self._listen, caller.server, facts.capabilities, self._changes)
        self._over = anyio.Event()
        self._why: ConnectionLost | None = None
        self._told = False
        self._mirrors = mirrors
        self._mirrored: dict[str, Mirrored] = {}

    @property
    def facts(self) -> ServerFacts:
        """See Session."""
        return self._facts

    async def request(
        self,
        call: Call[R],
        *,
        deadline: float | None = None,
        on_notice: NoticeFn | None = None,
        again: AgainFn | None = None,
    ) -> R:
        """See Session. A list or a read that is still fresh is not asked for again."""
        if call.METHOD not in self._offered:
            check_offered(call.METHOD, self._facts, self._caller.server)
            self._offered.add(call.METHOD)
        if call.METHOD in METHODS:
            kept = self._memory.get(call)
            if kept is not None:
                return kept
        try:
            return await self._request(call, deadline, on_notice, again)
        except Refused as error:
            # The server saw other headers than it expects: what it wants may have changed since it was listed.
            if error.code != HEADER_MISMATCH or not self._mirrors or call.METHOD != CallTool.METHOD:
                raise
            self.forget(ListTools.METHOD)
            await list_tools(self)
            await repeated(again, doubtful=True)
            return await self._request(call, deadline, on_notice, again)

    @property
    def _stamp(self) -> bytes:
        """What every request says of us; made anew when what we can do has changed."""
        capabilities = self._responder.capabilities
        if self._stamped[0] != capabilities:
            revision = self._facts.revision
            members = stamp(revision, US, capabilities_for(revision, capabilities)) | dict(self._trace)
            self._stamped = (capabilities, encode(members)[1:-1])
        return self._stamped[1]

    async def _request(
        self, call: Call[R], deadline: float | None, on_notice: NoticeFn | None, again: AgainFn | None
    ) -> R:
        headers = self._headers(call)
        said = self._stamp + b"," + self._log if self._log else self._stamp

        def send(extra: dict[str, Any] | None) -> Coroutine[Any, Any, Raw]:
            return self._caller.raw_call(
                call, deadline=deadline, on_notice=on_notice, again=again, stamp=said, headers=headers, extra=extra
            )

        if isinstance(call, ResumeTask):
            first = Task(task_id=call.task_id)
            return cast("R", self._caller.decode(await self._task(first, call.tool, deadline, on_notice, True), call))
        is_kept = call.METHOD in METHODS
        mark, asker = (self._memory.mark(call.METHOD), self._memory.credential) if is_kept else (0, "")
        raw = await send(None)
        result = self._caller.decode(raw, call)
        kind = getattr(result, "result_type", "")
        asked = kind == INPUT_REQUIRED and call.METHOD in _ASKING
        if asked:
            from mcphost.client.input_required import rounds  # with the first question of a server

            context = AskContext(call.METHOD, headers[NAME_HEADER], self._caller.next_id(), self._facts.revision)
            try:
                raw = await rounds(raw, send, self._responder, context)
            except ServerError as error:
                error.server = error.server or self._caller.server
                raise
            result = self._caller.decode(raw, call)
            kind = getattr(result, "result_type", "")
        if kind == TASK and isinstance(call, CallTool):
            raw = await self._task(raw, call.name, deadline, on_notice)
            result = cast("R", self._caller.decode(raw, call))
            kind = getattr(result, "result_type", "")
        if kind not in ("", COMPLETE):
            raise MalformedMessage(
                f"The server {self._caller.server!r} answered {call.METHOD} with a result of the unknown kind "
                f"{kind[:100]!r}.",
                f"That may be of a revision after {LATEST_STATELESS}, the newest one mcphost speaks.",
                server=self._caller.server,
            )
        if self._mirrors and isinstance(result, ToolPage):
            result = cast("R", await at_leisure(self._learned(result)))
        if is_kept and not asked:
            self._memory.put(call, result, memoryview(raw).nbytes, mark, asker)
        return result

    @cached_property
    def _followed(self) -> "Followed":
        from mcphost.client.tasks import Followed

        return Followed(self._caller.server)

    async def _task(
        self, first: Task | Raw, tool: str, deadline: float | None, on_notice: NoticeFn | None, is_left: bool = False
    ) -> Raw:
        """The server made a task of the call (SEP-2663): its result, when it has one."""
        from mcphost.client.tasks import Errand, Following
        from mcphost.client.tasks_extension import extension_result, seed

        task = first if isinstance(first, Task) else seed(first)

        async def send(call: Call[Any]) -> Raw:
            headers, patience = self._headers(call), self._caller.patience.base
            return await self._caller.raw_call(call, deadline=patience, stamp=self._stamp, headers=headers)

        try:
            limit = self._caller.patience.task if deadline is None else deadline
            number = self._caller.next_id()
            following = Following(
                task,
                send,
                Errand(self._caller.server, tool, number, limit, is_left, hard=self._caller.patience.hard),
                hear=on_notice,
                warn=self._observer.warn,
                alive=lambda: not self._over.is_set(),
            )
            tells = has_extension(self._facts.capabilities.extensions)
            stream = self._listen if tells else None
            work = partial(extension_result, following, send, self._responder, self._caller, stream)
            return await self._followed.to_the_end(following, work)
        except ServerError as error:
            error.server = error.server or self._caller.server
            raise

    def _headers(self, call: Call[Any]) -> Mapping[str, str]:
        if isinstance(call, CallTool):
            wanted = self._mirrored.get(call.name) if self._mirrors else None
            return {**(wanted.values(call) if wanted else {}), NAME_HEADER: call.name}
        if isinstance(call, GetPrompt):
            return {NAME_HEADER: call.name}
        if isinstance(call, ReadResource):
            return {NAME_HEADER: call.uri}
        if isinstance(call, GetTask | UpdateTask | CancelTask):
            return {NAME_HEADER: call.task_id}
        return NO_HEADERS

    def _learned(self, page: ToolPage) -> Generator[None, None, ToolPage]:
        """What each listed tool wants mirrored; one that asks for it wrongly is left out, and said of the first 20."""
        from mcphost.client.parameter_headers import mirrored

        kept: list[Raw] = []
        left_out, ends = 0, time.perf_counter() + TURN_SECONDS
        for definition in page.tools:
            if time.perf_counter() > ends:
                yield
                ends = time.perf_counter() + TURN_SECONDS
            try:
                name, wanted = mirrored(definition)
            except MalformedMessage as error:
                left_out += 1
                if left_out <= MAX_SAID:
                    self._observer.warn(error.message)
                continue
            self._mirrored.pop(name, None)
            if wanted.headers:
                self._mirrored[name] = wanted
                if len(self._mirrored) > MAX_ITEMS:  # a server whose tools have other names each time
                    del self._mirrored[next(iter(self._mirrored))]
            kept.append(definition)
        if left_out > MAX_SAID:
            self._observer.warn(f"{left_out - MAX_SAID:,} more tools of {self._caller.server!r} were left out.")
        return page if len(kept) == len(page.tools) else replace(page, tools=tuple(kept))

    async def changes(self, want: Watch) -> AsyncIterator[Notice]:
        """See Session. A subscription that breaks off is opened again, later and later."""
        self._subscriptions.want(want)
        try:
            async for change in self._changes:
                yield change
        finally:
            self._subscriptions.want(Watch())

    async def watch(self, want: Watch) -> None:
        """See Session."""
        await self._subscriptions.watch(want)

    @property
    def watched(self) -> Watch:
        """See Session."""
        return self._subscriptions.granted

    def forget(self, method: str = "") -> None:
        """See Session."""
        self._memory.forget(method)

    def is_fresh(self, call: Call[Any]) -> bool:
        """See Session."""
        return call.METHOD in METHODS and self._memory.get(call) is not None

    async def set_log_level(self, level: str) -> None:
        """See Session; here it is said with every request from now on, and servers need not declare anything."""
        self._log = b'"%s":%s' % (LOG_LEVEL.encode(), encode(level)) if level else b""

    async def tell(self, notice: Notice) -> None:
        """See Session; a client of this era sends no notifications, so nothing leaves."""

    @property
    def counts(self) -> Counter[str]:
        """See Session."""
        return Counter({"progress left out": self._caller.dropped_progress}) + Counter(self._channel.counts)

    @property
    def is_over(self) -> bool:
        """See Session."""
        return self._over.is_set() or self._channel.is_over

    async def closed(self) -> ConnectionLost:
        """See Session."""
        await self._over.wait()
        why = self._why or ConnectionLost(f"The server {self._caller.server!r} closed the connection.")
        return ConnectionLost(why.message, why.hint, server=self._caller.server)

    async def serve(self) -> None:
        """Read what belongs to no exchange until the connection ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._subscriptions.run)
            try:
                async for message in self._channel.unsolicited():
                    self.stray(message, AskContext())
            except ConnectionLost as error:
                self._why = error  # the next request says so, too
            finally:
                self._subscriptions.close()
                self._changes.close()
                self._over.set()

    def stray(self, message: Message, context: AskContext) -> None:
        """One message that is neither answer nor progress; requests are against the specification and not answered."""
        if isinstance(message, Request):
            if not self._told:
                self._told = True
                self._observer.warn(
                    f"The server {self._caller.server!r} sent the request {message.method[:100]!r}, which "
                    f"{self._facts.revision} does not allow; it was ignored."
                )
            return
        if isinstance(message, Notification):
            said = _read(message)
            if isinstance(said, LogMessage):
                self._observer.log(said)
            elif said is not None and self._is_change_without_subscription(message, said):
                self._changes.put(said, always=True)

    def _is_change_without_subscription(self, message: Notification, said: Notice) -> bool:
        """Whether the server tells of a changed list that it takes no subscriptions to, as FastMCP 4 does.

        Where there is a subscription, what comes outside of it does not count (basic/patterns/subscriptions).
        """
        if SUBSCRIPTION_ID in bytes(message.params):
            return False
        granted = self._subscriptions.granted
        match said:
            case ToolsListChanged():
                return not granted.tools
            case PromptsListChanged():
                return not granted.prompts
            case ResourcesListChanged():
                return not granted.resources
            case _:
                return False

    def _listen(self, wanted: Filter) -> AbstractAsyncContextManager[AsyncIterator[Message]]:
        body = encode(Listen(wanted))[:-1] + b',"_meta":{' + self._stamp + b"}}"
        return self._channel.exchange(Request(self._caller.next_id(), Listen.METHOD, Raw(body)))


def _read(message: Notification) -> Notice | None:
    return notice(message.method, message.params)
