"""Registry of the tools of all ready servers, each under a unique name for the model."""

import hashlib
import operator
import re
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from mcphost.config.schema import ServerConfig
from mcphost.errors import MalformedMessage
from mcphost.host.builtin_tool_names import RESERVED_TOOL_NAMES
from mcphost.host.server_views import SchemaErrors
from mcphost.host.servers.catalog import ServerListing, ToolDefinition
from mcphost.host.servers.connection import ServerConnection
from mcphost.llm.model import ToolSpec
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Raw, Struct, dumps, loads

if TYPE_CHECKING:
    from mcphost.sandbox.schema_validator import SchemaValidator

NAME_LIMIT = 64
_NAME_PREFIX_LENGTH = 4 * NAME_LIMIT
"""Leading characters used for the model-facing name; its hash suffix covers the full name."""
DESCRIPTION_LIMIT = 8 * 1024
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
_HIDDEN_TEXT = re.compile(
    rb"\xf3\xa0|\xef\xb8[\x80-\x8f]|\xc2[\x80-\x9f]|\x7f|\\u(?:[dD][bB]40|[fF][eE]0|00[0189])|\\[bf]"
)
"""Byte sequences in JSON that may be, or be part of, a hidden character in a string."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?')


def _never_disabled(_server: ServerConfig, _tool: str) -> str:
    return ""


class OfferedTool(Struct, frozen=True):
    """A server's tool as it was offered to the model, with the account in use at that time."""

    connection: ServerConnection
    definition: ToolDefinition
    account: str
    """The server's account at the time of the offer."""

    is_disabled: Callable[[], bool] = lambda: False
    """Returns whether the tool is turned off for the model; the user may still call it."""

    @property
    def is_current(self) -> bool:
        """Whether the server still lists the same definition, and the tool is neither turned off nor in quarantine.

        False if the definition changed and then changed back, because the tool is then in quarantine.
        """
        if self.is_disabled() or self.connection.tool_changes.is_quarantined(self.definition.name):
            return False
        listed = self.connection.tool(self.definition.name)
        return listed is not None and (listed is self.definition or listed.digest == self.definition.digest)

    async def validate(self, arguments: dict[str, Any], validator: "SchemaValidator") -> SchemaErrors:
        """Return the errors in the arguments according to the tool's input schema.

        There are none if the arguments are valid or cannot be checked; in the latter case, a warning is added to the
        server's log.
        """
        tool = self.definition.tool
        verdict = await validator.validate(tool.input_schema, arguments)
        if verdict.outcome == "unchecked":
            self.connection.warn(f"The arguments for the tool {tool.name!r} were not checked: {verdict.summary}.")
        if verdict.outcome != "invalid":
            return SchemaErrors()
        message = f"The arguments do not match the tool's inputSchema; the tool was not called. {verdict.summary}."
        return SchemaErrors(strip_hidden_text(message), verdict.violations)


class ToolOffer(Struct, frozen=True):
    """A tool that can be offered to the model.

    `tool` and `title` are its name and title on the server; `spec` describes it to the model.
    """

    server: str
    tool: str
    title: str
    spec: ToolSpec


class ToolRegistry:
    """The tools that the model may call; their names for the model do not change while the conversation uses them."""

    def __init__(
        self,
        connections: Iterable[ServerConnection],
        disabled_by: Callable[[ServerConfig, str], str] = _never_disabled,
    ) -> None:
        """Create a registry of the tools that the servers of *connections* offer.

        *disabled_by* returns what turned a tool off: "file" for a configuration file, "user" for the user, or "" if the
        tool is on.
        """
        self._connections = connections
        self._disabled_by = disabled_by
        self._names: dict[tuple[str, str], str] = {}
        self._offers: dict[str, tuple[ToolDefinition, ToolOffer]] = {}
        self._tools_by_name: dict[str, tuple[str, str]] = dict.fromkeys(RESERVED_TOOL_NAMES, ("", ""))
        self._named_listings: list[ServerListing] = []
        """The servers' listings whose tools all have a name; a model may call hundreds of unknown names."""

    @property
    def is_incomplete(self) -> bool:
        """Whether a server is still starting, so that its tools are not known yet."""
        return any(connection.is_starting for connection in self._connections)

    def model_name(self, server: str, tool: str) -> str:
        """Return the unique name of a tool for the model: at most 64 letters, digits, `_` and `-`.

        It begins with a letter or an underscore.
        """
        key = (server, tool)
        if key not in self._names:
            is_long = len(server) + 2 + len(tool) > _NAME_PREFIX_LENGTH
            whole = plain = f"{server}__{tool[:_NAME_PREFIX_LENGTH]}"[:_NAME_PREFIX_LENGTH]
            is_valid = plain[0] != "-" and plain.isascii() and plain.replace("-", "_").isidentifier()
            if not is_valid:  # a faster check than the pattern, and true for most names
                plain = _FORBIDDEN.sub("_", plain)
                # Gemini requires a letter or an underscore first: Vertex AI's reference, `FunctionDeclaration.name`.
                whole = plain = f"_{plain}"[:_NAME_PREFIX_LENGTH] if plain[0] in "-0123456789" else plain
            attempts = 0
            while len(plain) > NAME_LIMIT or plain in self._tools_by_name or (is_long and not attempts):
                # The suffixed name may be taken as well, because a server can compute the hash and choose its names.
                suffix = hashlib.sha256(f"{server}\0{tool}\0{attempts or ''}".encode()).hexdigest()[:8]
                plain = f"{whole[: NAME_LIMIT - 9]}_{suffix}"
                attempts += 1
            self._names[key] = plain
            self._tools_by_name[plain] = key
        return self._names[key]

    def forget_removed(self, find_used: Callable[[], Container[str]]) -> None:
        """Forget the names of tools that servers no longer have, except those that *find_used* returns.

        A forgotten name may be given to another tool. Call this only between a model's response and the next request,
        so that the response does not refer to a name with a new meaning.
        """
        servers = {one.config.name: one for one in self._connections}
        removed = [key for key in self._names if not _may_have(servers.get(key[0]), key[1])]
        used = find_used() if removed else ()
        for key in removed:
            if self._names[key] not in used:
                del self._tools_by_name[self._names.pop(key)]

    def find_server(self, name: str) -> str:
        """Return the name of the server whose tool has this model-facing name.

        Returns "" for mcphost's own tools and for unknown names.
        """
        return self._tools_by_name.get(name, ("", ""))[0]

    def available_tools(self) -> dict[str, OfferedTool]:
        """Return the tools of ready servers, keyed by model-facing name, except quarantined and turned-off ones."""
        return dict(self._iter_available())

    def _iter_available(self) -> Iterator[tuple[str, OfferedTool]]:
        for name, offered in self._iter_all():
            if _is_available(offered):
                yield name, offered

    def _iter_all(self) -> Iterator[tuple[str, OfferedTool]]:
        for connection in self._connections:
            if connection.is_ready:
                # Servers may list in any order; a changed order of the same tools would invalidate the prompt cache.
                for name, listed in sorted(connection.listing.tools.items()):
                    if listed.page.for_model:
                        yield self.model_name(connection.config.name, name), self._make_offered(connection, listed)

    def _make_offered(self, connection: ServerConnection, listed: ToolDefinition) -> OfferedTool:
        disabled_by = partial(self._disabled_by, connection.config, listed.name)
        return OfferedTool(connection, listed, connection.account, lambda: bool(disabled_by()))

    def resolve(self, name: str) -> OfferedTool | None:
        """Return the tool with this model-facing name, or None; includes quarantined and turned-off tools.

        Tools that only a server's page may call (`_meta.ui.visibility`) are not included.
        """
        if name not in self._tools_by_name:
            self._name_all()
        key = self._tools_by_name.get(name)
        if key is None:
            return None
        return next(
            (
                self._make_offered(connection, listed)
                for connection in self._connections
                if connection.config.name == key[0]
                and (listed := connection.tool(key[1])) is not None
                and listed.page.for_model
            ),
            None,
        )

    def _name_all(self) -> None:
        """Give a model-facing name to each tool of the ready servers that has none, if any listing has changed."""
        listings = [one.listing for one in self._connections if one.is_ready]
        before = self._named_listings
        if len(listings) != len(before) or any(map(operator.is_not, listings, before)):
            for _ in self._iter_all():
                pass
            self._named_listings = listings

    def find_names(self, tool: str) -> list[str]:
        """Return the model-facing names of the available tools that their servers call *tool*."""
        found = [
            self._make_offered(connection, listed)
            for connection in self._connections
            if connection.is_ready and (listed := connection.tool(tool)) is not None and listed.page.for_model
        ]
        return [self.model_name(one.connection.config.name, tool) for one in found if _is_available(one)]

    def list_offers(self) -> tuple[ToolOffer, ...]:
        """Return the available tools with their specifications; descriptions are truncated to 8 KB."""
        before, self._offers = self._offers, {}
        for name, offered in self._iter_available():
            cached = before.get(name)
            if cached is None or cached[0] is not offered.definition:
                cached = (offered.definition, _make_offer(name, offered))
            self._offers[name] = cached
        return tuple(offer for _, offer in self._offers.values())


def _is_available(offered: OfferedTool) -> bool:
    is_quarantined = offered.definition.name in offered.connection.tool_changes.quarantined
    return not is_quarantined and not offered.is_disabled()


def _may_have(connection: ServerConnection | None, tool: str) -> bool:
    """Return whether a server lists a tool, or may list it once it is ready."""
    return connection is not None and (not connection.is_ready or tool in connection.listing.tools)


def _make_offer(name: str, offered: OfferedTool) -> ToolOffer:
    tool = offered.definition.tool
    description = strip_hidden_text((tool.description or tool.display_name)[:DESCRIPTION_LIMIT]).encode(
        errors="replace"
    )
    # Truncation may split a character.
    text = description[:DESCRIPTION_LIMIT].decode(errors="ignore")
    spec = ToolSpec(name, text, _clean_schema(tool.input_schema))
    return ToolOffer(offered.connection.config.name, tool.name, strip_hidden_text((tool.title or "")[:200]), spec)


def _clean_schema(schema: Raw) -> Raw:
    """Remove hidden characters from the strings in a JSON schema; return it unchanged if there are none.

    The strings include argument names and enum values, so a call that matches the returned schema may not match the
    original one. A call that does not match the original schema is refused before it is sent.
    """
    if not _HIDDEN_TEXT.search(schema):
        return schema
    return Raw(_TEXT.sub(_clean_text, bytes(schema).decode(errors="replace")).encode())


def _clean_text(match: re.Match[str]) -> str:
    try:
        return dumps(strip_hidden_text(loads(match.group())))
    except MalformedMessage:
        return '"?"'
