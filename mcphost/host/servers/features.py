"""Features: what a user may do with a server besides its tools: resources, prompts, completion, logs, skills."""

import time
from collections.abc import Mapping
from shlex import quote

from mcphost.client.session import Session
from mcphost.errors import MalformedMessage, RequestRefused, UnsupportedCapability, UsageError
from mcphost.host.servers import resource_templates
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.skills import Skills
from mcphost.protocol.base import is_set
from mcphost.protocol.completion import (
    MAX_VALUES,
    Complete,
    Completion,
    CompletionArgument,
    CompletionContext,
    CompletionReference,
)
from mcphost.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from mcphost.protocol.lifecycle import Discover, Ping
from mcphost.protocol.logging import LEVELS
from mcphost.protocol.prompts import GetPrompt, GetPromptResult
from mcphost.protocol.resources import ReadResource, ReadResourceResult, ResourceNotFoundData
from mcphost.protocol.revisions import Revision
from mcphost.serialization import convert, replace

COMPLETION_SECONDS = 10.0
COMPLETION_CACHE_SECONDS = 60.0
COMPLETION_CACHE_SIZE = 200
VALUE_LIMIT = 8_192
"""A suggestion longer than this is none; nothing that long is ever sent as an argument."""
URI_LIMIT = 64 * 1024


class ServerFeatures:
    """Made by the host and reached as `host.features`; every method may be called from any task of the host.

    What waits for a server starts it when it is not started, and raises ServerError, Declined or UsageError.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._completions: dict[tuple[object, ...], tuple[float, Completion]] = {}
        self._without_completions: dict[str, Session] = {}
        self.skills = Skills(servers)

    async def _session(self, server: str) -> Session:
        return await self._servers.start(server).session()

    async def refresh(self, server: str) -> None:
        """List everything again, however fresh it is, and forget every read that is remembered."""
        watching = await self._servers.start(server).get_watcher()
        (await self._session(server)).invalidate()
        await watching.refresh()

    async def measure_round_trip(self, server: str) -> float:
        """How long the server takes for the smallest thing there is to ask, in seconds."""
        session = await self._session(server)
        began = time.monotonic()
        if session.facts.era == "handshake":
            await session.request(Ping())
        else:
            session.invalidate(Discover.METHOD)
            await session.request(Discover())
        return time.monotonic() - began

    # -- resources
    async def read_resource(self, server: str, uri: str, *, bypass_cache: bool = False) -> ReadResourceResult:
        """Read one resource, its address exactly as given; `fresh`: not from memory.

        Whatever its scheme, the server reads it: nothing is ever opened or fetched from here.
        """
        if not uri or len(uri) > URI_LIMIT:
            raise UsageError("The address of a resource is empty or too long.", "Take one that the server lists.")
        session = await self._session(server)
        if bypass_cache:
            session.invalidate(ReadResource.METHOD)
        try:
            return await session.request(ReadResource(uri))
        except RequestRefused as error:
            if error.code in {RESOURCE_NOT_FOUND, INVALID_PARAMS}:
                raise _not_found(error, server, uri) from error
            raise

    def template_variables(self, template: str) -> tuple[str, ...]:
        """What a form has to ask for before `expand`. Raises UsageError for what is no template."""
        return resource_templates.template_variables(template)

    def required_variables(self, template: str) -> tuple[str, ...]:
        """Which of them leave a hole in the address when they are empty. Raises UsageError."""
        return resource_templates.required_variables(template)

    def expand_template(self, template: str, values: Mapping[str, str]) -> str:
        """The address that a template and values make (RFC 6570), bounded. Raises UsageError."""
        return resource_templates.expand_template(template, values)

    async def subscribe(self, server: str, uri: str) -> None:
        """Hear of changes of one resource (events `ResourceChanged`), also after a reconnect, until `unsubscribe`."""
        if not uri or len(uri) > URI_LIMIT:
            raise UsageError("The address of a resource is empty or too long.", "Take one that the server lists.")
        await (await self._servers.start(server).get_watcher()).watch(uri)

    async def unsubscribe(self, server: str, uri: str) -> bool:
        """Not any more; False when it was not subscribed to."""
        return await (await self._servers.start(server).get_watcher()).unwatch(uri)

    def subscribed_uris(self, server: str) -> tuple[str, ...]:
        """What is subscribed to, whether the server is there or not. Raises UsageError."""
        return self._servers.find(server).watched_uris()

    # -- prompts
    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
        """Fill one prompt. Raises UsageError, and asks nothing, when a required argument is missing."""
        connection = self._servers.start(server)
        session = await connection.session()
        listed = next((one for one in connection.listing.catalog.prompts if one.name == name), None)
        missing = [one.name for one in listed.arguments if one.required and one.name not in arguments] if listed else []
        if missing:
            raise UsageError(
                f"The prompt {name!r} of {server!r} needs {', '.join(missing)[:500]}.", "Give each as NAME=VALUE."
            )
        return await session.request(GetPrompt(name, dict(arguments)))

    # -- completion
    def can_complete(self, server: str) -> bool:
        """Whether it is worth asking for completions, as far as is known now. Raises UsageError."""
        facts = self._servers.find(server).view().facts
        if facts is None:
            return False
        return is_set(facts.capabilities.completions) or facts.revision < Revision.V2025_03_26

    async def complete(
        self, server: str, ref: CompletionReference, argument: str, value: str, context: Mapping[str, str] | None = None
    ) -> Completion:
        """What the server suggests for an argument of which `value` is typed; `context` is what is filled in already.

        Results are cached for a minute, at most for the lifetime of the connection. A server without the completions
        capability is not asked (UnsupportedCapability); before 2025-03-26 there was no capability, so it is asked once.
        """
        session = await self._session(server)
        filled = (
            CompletionContext(dict(context)) if context and session.facts.revision >= Revision.V2025_06_18 else None
        )
        known = tuple(sorted(filled.arguments.items())) if filled else ()
        key = (server, session, ref, argument, value, known)
        remembered = self._completions.get(key)
        if remembered is not None and time.monotonic() < remembered[0]:
            return remembered[1]
        if self._without_completions.get(server) is session:
            raise UnsupportedCapability(f"The server {server!r} offers no completions.", server=server)
        try:
            answer = await session.request(
                Complete(ref, CompletionArgument(argument, value), filled), deadline=COMPLETION_SECONDS
            )
        except RequestRefused as error:
            if error.code == METHOD_NOT_FOUND:
                self._without_completions[server] = session
            raise
        found = answer.completion
        more = found.has_more or len(found.values) > MAX_VALUES or (found.total or 0) > len(found.values)
        values = tuple(one for one in found.values[:MAX_VALUES] if len(one) <= VALUE_LIMIT)
        made = replace(found, values=values, has_more=more)
        while len(self._completions) >= COMPLETION_CACHE_SIZE:
            self._completions.pop(next(iter(self._completions)))
        self._completions[key] = (time.monotonic() + COMPLETION_CACHE_SECONDS, made)
        return made

    # -- logs
    async def set_log_level(self, server: str, level: str) -> None:
        """Ask for log messages from this level on, now and after a reconnect; empty for none.

        They are in the server's log and in the events. A server of the handshake era cannot be told to stop.
        """
        if level not in ("", *LEVELS):
            raise UsageError(f"There is no log level {level[:40]!r}.", f"Levels: {', '.join(LEVELS)}.")
        await self._servers.start(server).set_log_level(level)


def _not_found(error: RequestRefused, server: str, uri: str) -> RequestRefused:
    """Both codes that servers use for it, in words; -32602 may also be about the address itself."""
    try:
        named = convert(error.data, ResourceNotFoundData).uri if error.data is not None else ""
    except MalformedMessage:
        named = ""
    what = (
        "has no resource" if error.code == RESOURCE_NOT_FOUND else "has no such resource, or does not take the address:"
    )
    made = RequestRefused(
        f"The server {server!r} {what} {(named or uri)[:500]!r}. It says: {error.server_message[:500]}",
        f"See what it has: mcphost resources {quote(server)}",
        code=error.code,
        data=error.data,
        server_message=error.server_message,
    )
    made.server = server
    return made
