"""Session for the revisions with a handshake, 2024-11-05 to 2025-11-25."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from mcphost.client.capability_guard import check_offered, may_tell
from mcphost.client.change_notifications import Changes
from mcphost.client.client_info import capabilities_for
from mcphost.client.incoming_requests import Answering
from mcphost.client.keepalive import Pulse
from mcphost.client.requests import Caller, repeated
from mcphost.client.session import AgainFn, AskContext, NoticeFn, Observer, Responder, ServerFacts, Watch
from mcphost.client.session_renewal import Renew, Renewal
from mcphost.client.tasks_2025 import CoreTasks
from mcphost.client.timeouts import unhurried
from mcphost.client.url_elicitation import UrlRounds
from mcphost.errors import ConnectionLost, DeadlinePassed, MalformedMessage, NotOffered, Refused, ServerError
from mcphost.protocol.base import Call, Notice
from mcphost.protocol.input_required import INPUT_REQUIRED
from mcphost.protocol.jsonrpc import Message, Notification, Request
from mcphost.protocol.logging import SetLevel
from mcphost.protocol.notifications import (
    Cancelled,
    ElicitationComplete,
    LogMessage,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
    notice,
)
from mcphost.protocol.resources import Subscribe, Unsubscribe
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tasks import ResumeTask
from mcphost.protocol.tools import ToolPage
from mcphost.serialization import Raw, encode, replace
from mcphost.transport.channel import Channel, SessionExpired

R = TypeVar("R")
ANSWERED_SECONDS = 1.0
"""How long a call waits for answers that are on their way to its server."""
_NO_CONTEXT = AskContext()


class HandshakeSession:
    """A negotiated connection; `serve` must run beside it as long as it is used.

    A session that an HTTP server forgot is opened anew with `renew`, once for all calls that found out, and those are
    repeated. A server that forgets the new one, too, ends the connection (specification 2025-11-25, basic/transports,
    "Session Management").
    """

    def __init__(
        self,
        channel: Channel,
        caller: Caller,
        facts: ServerFacts,
        responder: Responder,
        observer: Observer,
        tasks: TaskGroup,
        *,
        ping_interval: float = 0,
        renew: Renew | None = None,
    ) -> None:
        """`ping_interval` in seconds; 0 means that the server is not pinged.

        `renew` is the handshake, on the same channel, where sessions can be forgotten. Raises ServerError.
        """
        self._channel = channel
        self._caller = caller
        self._facts = facts
        self._responder = responder
        self._observer = observer
        self._declared = capabilities_for(facts.revision, responder.capabilities)
        self._answering = Answering(
            responder,
            channel.send,
            tasks,
            declared=self._declared,
            observer=observer,
            server=caller.server,
            flooded=self._flooded,
            pauses=caller.pauses,
        )
        caller.over = self._answering.call_over
        self._changes = Changes()
        self._subscribed: set[str] = set()
        self._lock = anyio.Lock()
        self._over = anyio.Event()
        self._renewal = Renewal(caller, renew, self._renewed, self._expired)
        self._stop = anyio.CancelScope()
        self._pulse = Pulse(caller, observer, ping_interval, self.give_up, self._renewal.now)
        tasks.start_soon(self._pulse.run)
        self._why: ConnectionLost | None = None
        # Tasks came with 2025-11-25; to an older server the capability is a word it invented.
        declared = facts.capabilities.tasks if facts.revision >= Revision.V2025_11_25 else Raw()
        self._tasks = CoreTasks(
            caller,
            declared,
            tasks,
            warn=observer.warn,
            alive=lambda: not self._over.is_set(),
            through=self._renewal.through,
        )

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
        """See Session."""
        if self._why is not None:
            lost = self._lost()
            lost.may_have_run = False  # this one was not even sent
            raise lost
        check_offered(call.METHOD, self._facts, self._caller.server)
        if call.METHOD == ResumeTask.METHOD:  # its call was made before this session
            return await self._request(call, deadline, on_notice, again)
        context = self._caller.context(call)
        with self._responder.running(context):
            await self._prepared(context, deadline)
            return await self._request(call, deadline, on_notice, again)

    async def _prepared(self, context: AskContext, deadline: float | None) -> None:
        """Ask what was put off until a call needs it, and let the answers leave before the call. Raises DeadlinePassed
        where the time of a person counts."""
        patience = self._caller.patience
        limit = None if not patience.hard else patience.base if deadline is None else deadline
        with unhurried(), anyio.move_on_after(limit) as scope:
            if await self._responder.prepare(context):
                with anyio.move_on_after(ANSWERED_SECONDS):
                    await self._answering.folders_sent()
        if scope.cancelled_caught:
            text = f"Nobody said within {limit:.0f} s whether {self._caller.server!r} may know your folders."
            raise DeadlinePassed(text, "It was not sent.", server=self._caller.server)

    async def _request(
        self, call: Call[R], deadline: float | None, on_notice: NoticeFn | None, again: AgainFn | None
    ) -> R:
        urls = UrlRounds(self._facts.revision, self._declared, self._responder)
        while True:
            try:
                return await self._once(call, deadline, on_notice, again)
            except Refused as error:
                if not await urls.visited(error, self._caller.context(call)):
                    raise
                await repeated(again)

    async def _once(
        self, call: Call[R], deadline: float | None, on_notice: NoticeFn | None, again: AgainFn | None
    ) -> R:
        if isinstance(call, ResumeTask):
            raw = await self._tasks.resume(call, deadline, on_notice)
            return cast("R", self._caller.decode(raw, call))
        if self._tasks.takes(call):
            raw = await self._tasks.run(call, deadline, on_notice, again)
            return cast("R", self._caller.decode(raw, call))
        session = self._renewal.count or await self._renewal.settled()
        try:
            result = await self._caller.call(call, deadline=deadline, on_notice=on_notice, again=again)
        except SessionExpired:

            async def send() -> R:
                await repeated(again, doubtful=True)
                return await self._caller.call(call, deadline=deadline, on_notice=on_notice, again=again)

            result = await self._renewal.repeat(session, send)
        if getattr(result, "result_type", "") == INPUT_REQUIRED:
            raise MalformedMessage(
                f"The server {self._caller.server!r} answered {call.METHOD} with a request for input, which "
                f"{self._facts.revision} does not have.",
                "It mixes revisions of the protocol; update it, or pin another revision for it.",
                server=self._caller.server,
            )
        self._renewal.keep(call)
        if isinstance(result, ToolPage):
            self._tasks.learn(result)
        return result

    async def changes(self, want: Watch) -> AsyncIterator[Notice]:
        """See Session."""
        refusals = await self._want(want)
        for refusal in refusals:
            self._observer.warn(f"Changes of a resource are not heard of: {refusal.message}")
        async for change in self._changes:
            yield change

    async def watch(self, want: Watch) -> None:
        """See Session."""
        refusals = await self._want(want)
        if refusals:
            raise refusals[0]

    @property
    def watched(self) -> Watch:
        """See Session."""
        return self._changes.want

    async def _want(self, want: Watch) -> list[ServerError]:
        """Subscribe to what is new and unsubscribe from what is not wanted any more; why some were refused."""
        offered = self._facts.capabilities.resources
        refusals: list[ServerError] = []
        async with self._lock:
            new = [uri for uri in want.uris if uri not in self._subscribed]
            # Known before the answer is: the first update may come on its heels.
            self._changes.want = want
            if offered is None or not offered.subscribe:
                return [NotOffered(f"The server {self._caller.server!r} offers no subscriptions.")] if new else []
            for uri in sorted(self._subscribed - set(want.uris)):
                self._subscribed.discard(uri)
                with suppress(Refused, MalformedMessage, DeadlinePassed):  # nobody hears of it any more either way
                    await self.request(Unsubscribe(uri))
            for uri in new:
                try:
                    await self.request(Subscribe(uri))
                    self._subscribed.add(uri)
                except (Refused, MalformedMessage, DeadlinePassed) as error:
                    refusals.append(error)
            refused = set(new) - self._subscribed
            self._changes.want = replace(want, uris=tuple(uri for uri in want.uris if uri not in refused))
        return refusals

    def forget(self, method: str = "") -> None:
        """See Session; in this era nothing is remembered."""

    def is_fresh(self, call: Call[Any]) -> bool:
        """See Session."""
        return False

    async def set_log_level(self, level: str) -> None:
        """See Session; once asked for, this era has no way to ask for none."""
        if level:
            await self.request(SetLevel(level))

    async def tell(self, notice: Notice) -> None:
        """See Session."""
        if not may_tell(notice, self._declared):
            return
        body = encode(notice)
        message = Notification(notice.METHOD, Raw() if body == b"{}" else Raw(body))
        await self._renewal.through(lambda: self._channel.send(message))

    @property
    def counts(self) -> Counter[str]:
        """See Session."""
        own = {"pings missed": self._pulse.missed, "progress left out": self._caller.dropped_progress}
        return Counter(own) + Counter(self._channel.counts) + self._answering.counts

    @property
    def is_over(self) -> bool:
        """See Session."""
        return self._why is not None or self._over.is_set() or self._channel.is_over

    async def closed(self) -> ConnectionLost:
        """See Session."""
        await self._over.wait()
        return self._lost()

    def _lost(self) -> ConnectionLost:
        why = self._why or ConnectionLost(f"The server {self._caller.server!r} closed the connection.")
        return ConnectionLost(why.message, why.hint, server=self._caller.server)

    def give_up(self, why: ConnectionLost) -> None:
        """The server is there but of no use any more: the session, with every call in flight, is over as if it left."""
        self._why = self._why or why
        self._stop.cancel()
        self._caller.end(self._lost)

    def _flooded(self) -> None:
        text = f"The server {self._caller.server!r} asks without end and does not read the answers; it was stopped."
        self.give_up(ConnectionLost(text, "Its log may say why.", server=self._caller.server))

    async def serve(self) -> None:
        """Read what belongs to no exchange until the connection ends."""
        try:
            with self._stop:
                while True:
                    try:
                        async for message in self._channel.unsolicited():
                            is_request = isinstance(message, Request)
                            self.stray(message, self._caller.only_context() if is_request else _NO_CONTEXT)
                    except SessionExpired:
                        await self._renewal.now()
        except ConnectionLost as error:
            self._why = self._why or error
        finally:
            self._changes.close()
            self._over.set()

    def _renewed(self, facts: ServerFacts) -> None:
        """A forgotten session was opened anew: everything that was listed may be another now."""
        name, before = self._caller.server, self._facts.revision
        if facts.revision != before:
            raise ConnectionLost(f"The server {name!r} spoke {before} and speaks {facts.revision} now.", server=name)
        self._facts = facts
        self._observer.warn(f"The server {name!r} forgot our session; a new one was opened.")
        for change in (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()):
            self._changes.put(change, always=True)

    def _expired(self, why: ConnectionLost) -> None:
        self._observer.warn(why.message)
        self.give_up(why)

    def stray(self, message: Message, context: AskContext) -> None:
        """One message that is neither answer nor progress."""
        self._caller.heard_at = asyncio.get_running_loop().time()
        if isinstance(message, Request):
            context = replace(context, revision=self._facts.revision)
            self._answering.take(message, partial(self._tasks.context, message.params, context))
            return
        if not isinstance(message, Notification) or self._tasks.heard(message):
            return
        said = notice(message.method, message.params)
        if said is None:
            return
        if isinstance(said, Cancelled):
            if said.request_id is not None and self._answering.taken_back(said.request_id) and said.reason:
                text = f"A question was taken back: {said.reason[:200]}"
                self._observer.log(LogMessage("info", data=Raw(encode(text))))
        elif isinstance(said, LogMessage):
            self._observer.log(said)
        elif isinstance(said, ElicitationComplete):
            self._responder.completed(said.elicitation_id)
        else:
            self._changes.put(said)
