"""What a session of the stateless era listens to: one subscription for its lists, one for single resources."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup

from mcphost.client.change_notifications import Changes, covers
from mcphost.client.error_mapping import refused
from mcphost.client.session import Watch
from mcphost.errors import ConnectionLost, DeadlinePassed, MalformedMessage, NotOffered, Refused, ServerError
from mcphost.json_limits import OverBound, check_values
from mcphost.protocol.base import Notice
from mcphost.protocol.input_required import Acknowledged, Filter, Listen
from mcphost.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, ErrorResponse, Message, Notification, Response
from mcphost.protocol.lifecycle import ServerCapabilities
from mcphost.protocol.notifications import (
    Cancelled,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
    notice,
)
from mcphost.serialization import decode_or_none
from mcphost.transport.channel import HttpStatus
from mcphost.transport.throttle import at_leisure

FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
STEADY_SECONDS = 10.0
"""A subscription that lived so long was a good one: the next break counts as the first again."""
VAIN_ROUNDS = 5
ACKNOWLEDGED_SECONDS = 10.0
SPARE_VALUES = 1_000
"""JSON values of an acknowledgement beyond the addresses that were asked for."""
_NEVER = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS})
_NO_SUCH_PLACE = frozenset({400, 404, 405, 501})
_NOTHING = Filter()
Open = Callable[[Filter], AbstractAsyncContextManager[AsyncIterator[Message]]]


class Subscriptions:
    """The streams of one session. `run` owns them; everything else may be called from any task."""

    def __init__(self, open_stream: Open, server: str, offered: ServerCapabilities, changes: Changes) -> None:
        self.open = open_stream
        self.server = server
        self.changes = changes
        self.over = anyio.Event()
        self._offered = offered
        self._streams: dict[str, Stream] = {}
        self._new: list[Stream] = []
        self._tasks: TaskGroup | None = None
        self._lock = anyio.Lock()

    async def run(self) -> None:
        """Live until `close`."""
        async with anyio.create_task_group() as self._tasks:
            for stream in self._new:
                self._tasks.start_soon(stream.run)
            await self.over.wait()
            self._tasks.cancel_scope.cancel()

    def close(self) -> None:
        """The connection is over."""
        self.over.set()
        for stream in self._streams.values():
            stream.settle(ConnectionLost(f"The connection to {self.server!r} is closed.", server=self.server))

    @property
    def granted(self) -> Watch:
        """What the server agreed to tell of, right now."""
        lists, single = self._granted("lists"), self._granted("resources")
        return Watch(
            tools=lists.tools_list_changed,
            prompts=lists.prompts_list_changed,
            resources=lists.resources_list_changed,
            uris=single.resource_subscriptions,
        )

    def _granted(self, kind: str) -> Filter:
        stream = self._streams.get(kind)
        while stream is not None and not stream.settled.is_set() and stream.before is not None:
            stream = stream.before  # what is open until the new one is
        return stream.granted if stream is not None else _NOTHING

    def want(self, want: Watch) -> None:
        """From now on listen for this; opens and closes streams without waiting for anybody."""
        offered = self._offered
        self.changes.want = want
        lists = Filter(
            tools_list_changed=want.tools and offered.tools is not None,
            prompts_list_changed=want.prompts and offered.prompts is not None,
            resources_list_changed=want.resources and offered.resources is not None,
        )
        may = offered.resources is not None and offered.resources.subscribe
        self._set("lists", lists)
        self._set("resources", Filter(resource_subscriptions=want.uris) if may else _NOTHING)

    async def watch(self, want: Watch) -> None:
        """The same, and wait until the server agreed; raises why it does not, for resources that were asked for anew.

        ServerError, Refused, DeadlinePassed. A stream that was open before stays when the new one is refused.
        """
        async with self._lock:
            new = set(want.uris) - set(self.granted.uris)
            self.want(want)
            stream = self._streams.get("resources")
            if not new:
                return
            if stream is None:
                raise NotOffered(f"The server {self.server!r} offers no subscriptions.")
            with anyio.move_on_after(ACKNOWLEDGED_SECONDS):
                await stream.settled.wait()
            if stream.refusal is not None:
                raise stream.refusal
            if not stream.settled.is_set():
                raise DeadlinePassed(
                    f"The server {self.server!r} did not acknowledge the subscription.", server=self.server
                )
            missing = sorted(new - set(stream.granted.resource_subscriptions))
            if missing:
                raise Refused(f"The server {self.server!r} does not tell of changes of {missing[0][:200]!r}.")

    def _set(self, kind: str, wanted: Filter) -> None:
        before = self._streams.get(kind)
        if before is not None and before.wanted == wanted:
            return
        if wanted == _NOTHING:
            if before is not None:
                before.close()
                del self._streams[kind]
            return
        stream = self._streams[kind] = Stream(self, kind, wanted, before)
        if self._tasks is None:
            self._new.append(stream)
        elif not self.over.is_set():
            self._tasks.start_soon(stream.run)

    def came_to_nothing(self, stream: "Stream") -> bool:
        """A stream came to nothing: whether what it should have replaced goes on in its place."""
        if self._streams.get(stream.kind) is not stream or stream.before is None:
            return False
        self._streams[stream.kind] = stream.before
        return True


class Stream:
    """One subscription, opened again when it breaks off; `before` is what it replaces once it is acknowledged."""

    def __init__(self, owner: Subscriptions, kind: str, wanted: Filter, before: "Stream | None") -> None:
        self.kind = kind
        self.wanted = wanted
        self.before = before
        self.granted = _NOTHING
        self.settled = anyio.Event()
        self.refusal: ServerError | None = None
        self._owner = owner
        self._scope = anyio.CancelScope()
        self._was_active = False

    def close(self) -> None:
        """End it, and what it would have replaced; the transport tells the server."""
        self._scope.cancel()
        if self.before is not None:
            self.before.close()

    def settle(self, refusal: ServerError | None = None) -> None:
        """Known for the first time whether the server agrees."""
        if self.settled.is_set():
            return
        self.refusal = refusal
        self.settled.set()
        if refusal is not None:
            if self._owner.came_to_nothing(self):
                self._scope.cancel()  # somebody was told that it was refused; it must not come to life later
        elif self.before is not None:
            self.before.close()
        self.before = None

    async def run(self) -> None:
        """Listen until closed, refused for good, or given up."""
        wait, vain = FIRST_WAIT, 0
        with self._scope:
            while not self._owner.over.is_set():
                began, self.granted, gone = anyio.current_time(), _NOTHING, False
                try:
                    active = await self._listen()
                except ConnectionLost:
                    active, gone = self.granted != _NOTHING, True
                except ServerError as error:
                    self.settle(error)
                    if _is_final(error):
                        return
                    active = False
                self.granted = _NOTHING
                if active and anyio.current_time() - began > STEADY_SECONDS:
                    wait, vain = FIRST_WAIT, 0
                vain = 0 if active or gone else vain + 1
                if vain >= VAIN_ROUNDS:
                    self.settle(Refused(f"The server {self._owner.server!r} does not acknowledge subscriptions."))
                    return
                with anyio.move_on_after(wait * random.uniform(0.8, 1.2)):  # noqa: S311 - spreads clients, no secret
                    await self._owner.over.wait()
                wait = min(wait * 2, LONGEST_WAIT)

    async def _listen(self) -> bool:
        """One stream to its end; whether it was acknowledged. Raises ServerError."""
        active = False
        async with self._owner.open(self.wanted) as messages:
            async for message in messages:
                if isinstance(message, ErrorResponse):
                    raise refused(self._owner.server, Listen.METHOD, message.error)
                if isinstance(message, Response):
                    return active
                if isinstance(message, Notification) and message.method == Acknowledged.METHOD:
                    await self._check(message)
                said = _read(message) if isinstance(message, Notification) else None
                if isinstance(said, Cancelled):
                    return active
                if isinstance(said, Acknowledged):
                    if not active:
                        active = True
                        self._acknowledged(said)
                elif active and said is not None and _asked(said, self.granted):
                    self._owner.changes.put(said)
        return active

    async def _check(self, message: Notification) -> None:
        """Raise MalformedMessage for an acknowledgement of more than was asked for, before it is decoded."""
        asked = len(self.wanted.resource_subscriptions)
        try:
            await at_leisure(check_values(bytes(message.params), asked + SPARE_VALUES))
        except OverBound as error:
            raise MalformedMessage(
                f"The server {self._owner.server!r} acknowledged far more than the {asked:,} resources asked for.",
                server=self._owner.server,
            ) from error

    def _acknowledged(self, said: Acknowledged) -> None:
        self.granted = _both(self.wanted, said.notifications)
        self.settle()
        if self._was_active:
            # Nobody told what changed while no stream was open.
            for changed in _lists(self.granted):
                self._owner.changes.put(changed)
        self._was_active = True


def _is_final(error: ServerError) -> bool:
    if isinstance(error, HttpStatus):
        return error.status in _NO_SUCH_PLACE
    return isinstance(error, Refused) and error.code in _NEVER


def _both(wanted: Filter, honoured: Filter | None) -> Filter:
    if honoured is None:
        return wanted
    uris = set(honoured.resource_subscriptions)
    return Filter(
        tools_list_changed=wanted.tools_list_changed and honoured.tools_list_changed,
        prompts_list_changed=wanted.prompts_list_changed and honoured.prompts_list_changed,
        resources_list_changed=wanted.resources_list_changed and honoured.resources_list_changed,
        resource_subscriptions=tuple(uri for uri in wanted.resource_subscriptions if uri in uris),
    )


def _lists(granted: Filter) -> list[Notice]:
    out: list[Notice] = []
    if granted.tools_list_changed:
        out.append(ToolsListChanged())
    if granted.prompts_list_changed:
        out.append(PromptsListChanged())
    if granted.resources_list_changed:
        out.append(ResourcesListChanged())
    return out


def _asked(said: Notice, granted: Filter) -> bool:
    if isinstance(said, ResourceUpdated):
        return covers(granted.resource_subscriptions, said.uri)
    return type(said) in {type(one) for one in _lists(granted)}


def _read(message: Notification) -> Notice | None:
    if message.method == Acknowledged.METHOD:
        return decode_or_none(bytes(message.params) or b"{}", Acknowledged)
    return notice(message.method, message.params)
