"""Session for the revisions with a handshake, 2024-11-05 to 2025-11-25."""

from collections.abc import AsyncIterator
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from mcphost.client.answering import Answering
from mcphost.client.calls import Caller
from mcphost.client.changes import Changes
from mcphost.client.session import AskContext, NoticeFn, Observer, Responder, ServerFacts, Watch
from mcphost.data import Raw, encode
from mcphost.errors import ConnectionLost, MalformedMessage
from mcphost.protocol.jsonrpc import Message, Notification, Request
from mcphost.protocol.notices import Cancelled, LogMessage, notice
from mcphost.protocol.resources import Subscribe
from mcphost.protocol.wire import Call, Notice
from mcphost.transport.channel import Channel

R = TypeVar("R")


class HandshakeSession:
    """A negotiated connection; `serve` must run beside it as long as it is used."""

    def __init__(
        self,
        channel: Channel,
        caller: Caller,
        facts: ServerFacts,
        responder: Responder,
        observer: Observer,
        tasks: TaskGroup,
    ) -> None:
        self._channel = channel
        self._caller = caller
        self._facts = facts
        self._observer = observer
        self._answering = Answering(responder, channel.send, tasks)
        self._changes = Changes()
        self._over = anyio.Event()

    @property
    def facts(self) -> ServerFacts:
        """See Session."""
        return self._facts

    async def request(self, call: Call[R], *, deadline: float | None = None, on_notice: NoticeFn | None = None) -> R:
        """See Session."""
        return await self._caller.call(call, deadline=deadline, on_notice=on_notice)

    async def changes(self, want: Watch) -> AsyncIterator[Notice]:
        """See Session."""
        self._changes.want = want
        offered = self._facts.capabilities.resources
        for uri in want.uris if offered is not None and offered.subscribe else ():
            await self.request(Subscribe(uri))
        async for change in self._changes:
            yield change

    async def tell(self, notice: Notice) -> None:
        """See Session."""
        body = encode(notice)
        await self._channel.send(Notification(notice.METHOD, Raw() if body == b"{}" else Raw(body)))

    async def closed(self) -> None:
        """See Session."""
        await self._over.wait()

    async def serve(self) -> None:
        """Read what belongs to no exchange until the connection ends."""
        try:
            async for message in self._channel.unsolicited():
                self.stray(message, self._caller.only_context())
        except ConnectionLost:
            return  # the next request says so
        finally:
            self._changes.close()
            self._over.set()

    def stray(self, message: Message, context: AskContext) -> None:
        """One message that is neither answer nor progress."""
        if isinstance(message, Request):
            self._answering.take(message, context)
            return
        if not isinstance(message, Notification):
            return
        try:
            said = notice(message.method, message.params)
        except MalformedMessage:
            return
        if isinstance(said, Cancelled):
            if said.request_id is not None:
                self._answering.taken_back(said.request_id)
        elif isinstance(said, LogMessage):
            self._observer.log(said)
        else:
            self._changes.put(said)
