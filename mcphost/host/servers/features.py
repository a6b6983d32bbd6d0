"""Server features besides tools: resources, templates, prompts, completion, subscriptions, logs and skills."""

import logging
import re
import time
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import anyio

from mcphost.client.session import Session
from mcphost.errors import MalformedMessage, McpHostError, RequestRefused, UnsupportedCapability, UsageError
from mcphost.host.lifetime import Lazy
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.skills import Skills
from mcphost.protocol.base import ClientRequest, is_set
from mcphost.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from mcphost.protocol.lifecycle import Discover, Ping
from mcphost.protocol.notifications import LEVELS
from mcphost.protocol.prompts import (
    MAX_VALUES,
    Complete,
    Completion,
    CompletionArgument,
    CompletionContext,
    CompletionReference,
    GetPrompt,
    GetPromptResult,
)
from mcphost.protocol.resources import ReadResource, ReadResourceResult, ResourceNotFoundData
from mcphost.protocol.revisions import Revision
from mcphost.serialization import convert, replace

TEMPLATE_LIMIT = 8_192
TEMPLATE_URI_LIMIT = 8_192
TEMPLATE_VALUE_LIMIT = 8_192
VARIABLE_LIMIT = 100
_URI_CHARACTERS = ":/?#[]@!$&'()*+,;=%"  # RFC 3986, besides letters, digits and -._~
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_EXPRESSION = re.compile(r"\{([^{}]*)\}")
COMPLETION_SECONDS = 10.0
COMPLETION_CACHE_SECONDS = 60.0
COMPLETION_CACHE_SIZE = 200
VALUE_LIMIT = 8_192
"""Maximum characters of a suggestion; longer ones are dropped."""
URI_LIMIT = 64 * 1024

_log = logging.getLogger(__name__)

MAX_FOLLOWED = 100
"""Maximum number of attached resources to subscribe to; if there are more, the newest ones are chosen."""


class EditableTexts(Protocol):
    """Interface of an object that remembers texts from servers that the user can edit and send as a message."""

    def note_prompt(self, server: str, name: str, prompt: GetPromptResult) -> None:
        """Remember the texts of a prompt that a server returned."""
        ...

    def note_text(self, server: str, source: str, text: str, target: str = "") -> None:
        """Remember that *text* came from a server; *source* names the server's feature, such as "prompt".

        *target* is the digest of the program or URL that the server had when it sent the text, "" for the current
        program or URL; see `Message.servers`.
        """
        ...


class ServerFeatures:
    """Access to server features other than tools, available as `host.features` from any task.

    Methods that need a running server start it if necessary, and raise ServerError, ConsentDenied or UsageError.
    """

    def __init__(self, servers: Servers, editable_texts: Lazy[EditableTexts] | None = None) -> None:
        """Create an object that gives access to the features of *servers*.

        *editable_texts* remembers fetched prompts and the texts passed to `note_text`; None if they are not remembered.
        """
        self._servers = servers
        self._editable_texts = editable_texts
        self._completions: dict[tuple[object, ...], tuple[float, Completion]] = {}
        self._without_completions: dict[str, Session] = {}
        self.skills = Skills(servers)
        self.attached = AttachedSubscriptions(servers)

    async def _session(self, server: str) -> Session:
        return await self._servers.start(server).session()

    async def refresh(self, server: str) -> None:
        """Clear the server's cached results and fetch all its lists again."""
        watching = await self._servers.start(server).changes.get_watcher()
        (await self._session(server)).invalidate()
        await watching.refresh()

    async def measure_round_trip(self, server: str) -> float:
        """Return the time in seconds that a ping takes.

        In protocol version 2026-07-28 and later, there is no ping, so `server/discover` is sent instead.
        """
        session = await self._session(server)
        began = time.monotonic()
        if session.facts.era == "handshake":
            await session.request(Ping())
        else:
            session.invalidate(Discover.METHOD)
            await session.request(Discover())
        return time.monotonic() - began

    async def send_again(self, server: str, request: ClientRequest[Any]) -> None:
        """Repeat a request that the message log contains, bypassing the cache; the log then shows the result."""
        session = await self._session(server)
        session.invalidate(request.METHOD)
        await session.request(request)

    # -- resources
    async def read_resource(self, server: str, uri: str, *, bypass_cache: bool = False) -> ReadResourceResult:
        """Request one resource from the server; *uri* is sent exactly as given.

        If *bypass_cache* is true, cached results are dropped first. A URI with any scheme is allowed, because only the
        server resolves it; mcphost itself never fetches it.
        """
        if not uri or len(uri) > URI_LIMIT:
            raise UsageError("The resource address is empty or too long.", "Use one that the server lists.")
        session = await self._session(server)
        if bypass_cache:
            session.invalidate(ReadResource.METHOD)
        try:
            return await session.request(ReadResource(uri))
        except RequestRefused as error:
            if error.code in {RESOURCE_NOT_FOUND, INVALID_PARAMS}:
                raise _not_found(error, server, uri) from error
            raise

    async def subscribe(self, server: str, uri: str) -> None:
        """Subscribe to one resource: updates are published as `ResourceChanged` events until `unsubscribe`.

        The subscription is restored after a reconnect.
        """
        if not uri or len(uri) > URI_LIMIT:
            raise UsageError("The resource address is empty or too long.", "Use one that the server lists.")
        await (await self._servers.start(server).changes.get_watcher()).watch(uri)

    async def unsubscribe(self, server: str, uri: str) -> bool:
        """Unsubscribe from one resource; return False if it was not subscribed."""
        return await (await self._servers.start(server).changes.get_watcher()).unwatch(uri)

    def subscribed_uris(self, server: str) -> tuple[str, ...]:
        """Return the URIs of the subscribed resources, whether or not the server is connected.

        Raises UsageError for an unknown server.
        """
        return tuple(self._servers.find(server).changes.watched_uris)

    def active_uris(self, server: str) -> tuple[str, ...]:
        """Return the URIs of the subscribed resources whose changes the server currently announces.

        Empty while the server is not connected or cannot be reached. Raises UsageError for an unknown server.
        """
        return self._servers.find(server).active_uris()

    # -- prompts
    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
        """Request a prompt from the server, with *arguments* filled in.

        Raises UsageError, without sending a request, if a required argument is missing.
        """
        connection = self._servers.start(server)
        session = await connection.session()
        listed = next((item for item in connection.listing.catalog.prompts if item.name == name), None)
        missing = (
            [item.name for item in listed.arguments if item.required and item.name not in arguments] if listed else []
        )
        if missing:
            raise UsageError(
                f"The prompt {name!r} of {server!r} needs {', '.join(missing)[:500]}.", "Give a value for each."
            )
        prompt = await session.request(GetPrompt(name, dict(arguments)))
        if self._editable_texts is not None:
            self._editable_texts.get().note_prompt(server, name, prompt)
        return prompt

    def note_text(self, server: str, source: str, text: str, target: str = "") -> None:
        """Remember that *text*, which the user can edit and send as a message, came from a server.

        *source* names the feature that returned the text, such as "prompt". *target* is the digest of the program or
        URL that the server had when it sent the text, "" for the current program or URL; see `Message.servers`.
        """
        if self._editable_texts is not None:
            self._editable_texts.get().note_text(server, source, text, target)

    def note_prompt_text(self, server: str, name: str, text: str) -> None:
        """Remember that *text* came from the prompt *name*; see `note_text`."""
        self.note_text(server, f"prompt {name}", text)

    # -- completion
    def can_complete(self, server: str) -> bool:
        """Return whether a connected server may support completion; False if it is not connected.

        Before protocol version 2025-03-26, servers could not declare the capability; for these servers, the result is
        True. Raises UsageError for an unknown server.
        """
        facts = self._servers.find(server).view().facts
        if facts is None:
            return False
        return is_set(facts.capabilities.completions) or facts.revision < Revision.V2025_03_26

    async def complete(
        self, server: str, ref: CompletionReference, argument: str, value: str, context: Mapping[str, str] | None = None
    ) -> Completion:
        """Return the server's suggestions for an argument.

        *value* is the text entered so far, and *context* contains the arguments already filled in. Results are cached
        for a minute, as long as the connection lasts.

        Raises UnsupportedCapability, without a request, if the server does not support completion. Before protocol
        version 2025-03-26, servers could not declare whether they do, so requests are sent until the server rejects one
        as an unknown method.
        """
        session = await self._session(server)
        filled = (
            CompletionContext(dict(context)) if context and session.facts.revision >= Revision.V2025_06_18 else None
        )
        known = tuple(sorted(filled.arguments.items())) if filled else ()
        key = (server, session, ref, argument, value, known)
        cached = self._completions.get(key)
        if cached is not None and time.monotonic() < cached[0]:
            return cached[1]
        if self._without_completions.get(server) is session:
            raise UnsupportedCapability(f"The server {server!r} offers no completions.", server=server)
        try:
            response = await session.request(
                Complete(ref, CompletionArgument(argument, value), filled), deadline=COMPLETION_SECONDS
            )
        except RequestRefused as error:
            if error.code == METHOD_NOT_FOUND:
                self._without_completions[server] = session
            raise
        completion = response.completion
        more = (
            completion.has_more
            or len(completion.values) > MAX_VALUES
            or (completion.total or 0) > len(completion.values)
        )
        values = tuple(item for item in completion.values[:MAX_VALUES] if len(item) <= VALUE_LIMIT)
        result = replace(completion, values=values, has_more=more)
        while len(self._completions) >= COMPLETION_CACHE_SIZE:
            self._completions.pop(next(iter(self._completions)))
        self._completions[key] = (time.monotonic() + COMPLETION_CACHE_SECONDS, result)
        return result

    # -- logs
    async def set_log_level(self, server: str, level: str) -> None:
        """Set the minimum level of a server's log messages, now and after each reconnect; "" turns them off.

        Messages are added to the server's log and published as events. Before protocol version 2026-07-28, servers
        could not be asked to stop sending them, so "" has no effect.
        """
        if level not in ("", *LEVELS):
            raise UsageError(f"There is no log level {level[:40]!r}.", f"Levels: {', '.join(LEVELS)}.")
        await self._servers.start(server).set_log_level(level)


def _not_found(error: RequestRefused, server: str, uri: str) -> RequestRefused:
    """Return the server's error with a message that names the missing resource.

    Servers report a missing resource with one of two error codes. Because -32602 can also mean that the URI is invalid,
    the message for this code mentions both.
    """
    try:
        server_uri = convert(error.data, ResourceNotFoundData).uri if error.data is not None else ""
    except MalformedMessage:
        server_uri = ""
    shown, message = repr((server_uri or uri)[:500]), error.server_message[:500]
    refusal = RequestRefused(
        f"The server {server!r} has no resource {shown}. It says: {message}"
        if error.code == RESOURCE_NOT_FOUND
        else f"The server {server!r} does not have or accept the resource {shown}. It says: {message}",
        "Choose one from the list of its resources.",
        code=error.code,
        data=error.data,
        server_message=error.server_message,
    )
    refusal.server = server
    return refusal


def template_variables(template: str) -> tuple[str, ...]:
    """Return the distinct variables of a template, in order. Raises UsageError for an invalid template."""
    from uritemplate import URITemplate  # imported late, because templates are rarely used

    _check_template(template)
    try:
        names = tuple(URITemplate(template).variable_names)
    except (ValueError, IndexError) as error:
        raise _template_error(template, "one of its variables cannot be read") from error
    if len(names) > VARIABLE_LIMIT:
        raise _template_error(template, f"it has over {VARIABLE_LIMIT} variables")
    return names


def required_variables(template: str) -> tuple[str, ...]:
    """Return the names of a template's variables that must have a value.

    Variables in expressions such as `{?x}` and `{#x}` may be empty. Raises UsageError for an invalid template.
    """
    known = template_variables(template)
    expressions = [
        expression.lstrip("+") for expression in _EXPRESSION.findall(template) if expression[0] not in "?&;#./"
    ]
    names = {
        part.split(":")[0].split("=")[0].rstrip("*") for expression in expressions for part in expression.split(",")
    }
    return tuple(name for name in known if name in names)


def expand_template(template: str, values: Mapping[str, str]) -> str:
    """Return a template's URI with percent-encoded values; missing values are omitted (RFC 6570).

    Raises UsageError for an invalid template, an unknown variable, or a value or URI over 8,192 characters.
    """
    from uritemplate import URITemplate

    known = template_variables(template)
    for name, value in values.items():
        if name not in known:
            raise UsageError(
                f"The template {_display_template(template)} has no variable {name[:100]!r}.",
                f"Its variables: {', '.join(known)[:500]}." if known else "It has no variables.",
            )
        if len(value) > TEMPLATE_VALUE_LIMIT:
            raise UsageError(f"The value of {name[:100]!r} is over {TEMPLATE_VALUE_LIMIT:,} characters.", "Shorten it.")
    try:
        expanded = URITemplate(template).expand(dict(values))
        # The library encodes neither literals nor reserved values that contain a percent triplet.
        address = _LONE_PERCENT.sub("%25", urllib.parse.quote(expanded, safe=_URI_CHARACTERS))
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"A value for {_display_template(template)} cannot be part of an address.", "Correct it."
        ) from error
    if not address or len(address) > TEMPLATE_URI_LIMIT:
        raise UsageError(
            f"The address expanded from {_display_template(template)} is {'empty' if not address else 'too long'}.",
            "Change the values.",
        )
    return address


def _check_template(template: str) -> None:
    if len(template) > TEMPLATE_LIMIT:
        raise _template_error(template, f"it is over {TEMPLATE_LIMIT:,} characters")
    rest = _EXPRESSION.sub("", template)
    if "{" in rest or "}" in rest:
        raise _template_error(template, "its braces do not match")
    for expression in _EXPRESSION.findall(template):
        if not expression or expression[0] in "=,!@|":
            raise _template_error(template, f"{{{expression[:50]}}} has no meaning in RFC 6570")


def _template_error(template: str, why: str) -> UsageError:
    return UsageError(
        f"The template {_display_template(template)} cannot be used: {why}.", "Report it to the server's author."
    )


def _display_template(template: str) -> str:
    return repr(template[:200])


class AttachedSubscriptions:
    """Subscriptions to attached resources, so that a change on the server marks an attachment as outdated.

    Subscriptions that the user made are not changed. If the user ends a subscription that was made for an attachment,
    it is not renewed while the resource stays attached.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._wanted: dict[tuple[str, str], None] = {}
        self._tried: set[tuple[str, str]] = set()
        self._own: set[tuple[str, str]] = set()
        self._lock = anyio.Lock()

    async def follow(self, resources: Iterable[tuple[str, str]]) -> None:
        """Subscribe to these attached resources, and end the subscriptions that earlier calls made to others.

        *resources* contains pairs of server name and URI, oldest first; only the last MAX_FOLLOWED are used. Servers
        that cannot report changes are skipped. Never raises an error; a failed subscription is only logged.
        """
        self._wanted = dict.fromkeys(list(resources)[-MAX_FOLLOWED:])
        async with self._lock:
            self._tried &= self._wanted.keys()
            for key in self._own - self._wanted.keys():
                self._own.discard(key)
                await self._unsubscribe(*key)
            for key in [key for key in self._wanted if key not in self._tried]:
                self._tried.add(key)
                if await self._subscribe(*key):
                    self._own.add(key)

    async def _subscribe(self, server: str, uri: str) -> bool:
        """Subscribe to a resource; return False if that fails or if the user has already subscribed to it."""
        try:
            connection = self._servers.find(server)
            facts = connection.view().facts
            if facts is None or facts.capabilities.resources is None or not facts.capabilities.resources.subscribe:
                return False
            if uri in connection.changes.watched_uris:
                return False
            await (await connection.changes.get_watcher()).watch(uri)
        except McpHostError as error:
            _log.info("%s: no subscription to an attached resource: %s", server, error.message)
            return False
        return True

    async def _unsubscribe(self, server: str, uri: str) -> None:
        try:
            await self._servers.find(server).changes.unwatch(uri)
        except McpHostError as error:
            _log.info("%s: a subscription to a resource could not be ended: %s", server, error.message)
