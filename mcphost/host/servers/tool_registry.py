"""Unique model-facing names for every tool of every ready server, and back."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from mcphost.config.schema import ServerConfig
from mcphost.errors import MalformedMessage
from mcphost.host.reserved_names import RESERVED_TOOL_NAMES
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.connection import ServerConnection
from mcphost.llm.model import ToolSpec
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Raw, Struct, dumps, loads

NAME_LIMIT = 64
_NAME_PREFIX_LENGTH = 4 * NAME_LIMIT
"""Characters of a longer name from which the model-facing one is made; its mark is made of all of them."""
DESCRIPTION_LIMIT = 8 * 1024
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
_HIDDEN_TEXT = re.compile(rb"\xf3\xa0|\xc2[\x80-\x9f]|\x7f|\\u(?:[dD][bB]40|00[0189])|\\[bf]")
"""What a JSON text holds when one of its texts may not be as readable as it looks."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?')


def _never_disabled(_server: ServerConfig, _tool: str) -> str:
    return ""


class OfferedTool(Struct, frozen=True):
    """One tool as offered to the model."""

    connection: ServerConnection
    definition: ToolDefinition
    account: str
    """Whose account its server was used with then."""

    is_disabled: Callable[[], bool] = lambda: False
    """Whether the user switched it off for the model; what the user calls cannot be off."""

    @property
    def is_current(self) -> bool:
        """Whether its server still lists exactly this definition, and the model may still have it called."""
        if self.is_disabled():
            return False
        now = self.connection.tool(self.definition.name)
        return now is not None and (now is self.definition or now.digest == self.definition.digest)


class ToolRegistry:
    """What the model may call. Names stay the same for as long as the host runs."""

    def __init__(
        self,
        connections: Callable[[], Iterable[ServerConnection]],
        disabled_by: Callable[[ServerConfig, str], str] = _never_disabled,
    ) -> None:
        """`off` says who switched a tool off, in words or not at all."""
        self._connections = connections
        self._disabled_by = disabled_by
        self._names: dict[tuple[str, str], str] = {}
        self._tools_by_name: dict[str, tuple[str, str]] = dict.fromkeys(RESERVED_TOOL_NAMES, ("", ""))

    def model_name(self, server: str, tool: str) -> str:
        """The model-facing name: letters, digits, `_` and `-`, at most 64, never two tools alike."""
        key = (server, tool)
        if key not in self._names:
            is_long = len(server) + 2 + len(tool) > _NAME_PREFIX_LENGTH
            whole = plain = f"{server}__{tool[:_NAME_PREFIX_LENGTH]}"[:_NAME_PREFIX_LENGTH]
            if not (plain.isascii() and plain.replace("-", "_").isidentifier()):  # most are, and that is found faster
                whole = plain = _FORBIDDEN.sub("_", plain)
            tries = 0
            while len(plain) > NAME_LIMIT or plain in self._tools_by_name or (is_long and not tries):
                # Also the marked name may be taken: whoever names tools can compute marks.
                mark = hashlib.sha256(f"{server}\0{tool}\0{tries or ''}".encode()).hexdigest()[:8]
                plain = f"{whole[: NAME_LIMIT - 9]}_{mark}"
                tries += 1
            self._names[key] = plain
            self._tools_by_name[plain] = key
        return self._names[key]

    def available_tools(self) -> dict[str, OfferedTool]:
        """Every tool of every ready server that is neither held back nor off, by its model-facing name."""
        return dict(self._iter_available())

    def _iter_available(self) -> Iterator[tuple[str, OfferedTool]]:
        for name, offered in self._iter_all():
            if offered.definition.name not in offered.connection.tool_changes.quarantined and not offered.is_disabled():
                yield name, offered

    def _iter_all(self) -> Iterator[tuple[str, OfferedTool]]:
        for connection in self._connections():
            if connection.is_ready:
                # Servers may list in any order; the same tools in another order would cost the provider's prompt cache.
                for name, listed in sorted(connection.listing.tools.items()):
                    yield self.model_name(connection.config.name, name), self._make_offered(connection, listed)

    def _make_offered(self, connection: ServerConnection, listed: ToolDefinition) -> OfferedTool:
        off = partial(self._disabled_by, connection.config, listed.name)
        return OfferedTool(connection, listed, connection.account, lambda: bool(off()))

    def resolve(self, name: str) -> OfferedTool | None:
        """The tool behind a model-facing name, also one that is held back or off; None when there is none now."""
        key = self._tools_by_name.get(name)
        if key is None:
            return dict(self._iter_all()).get(name)
        return next(
            (
                self._make_offered(connection, listed)
                for connection in self._connections()
                if connection.config.name == key[0] and (listed := connection.tool(key[1])) is not None
            ),
            None,
        )

    def specs(self, limit: int) -> tuple[ToolSpec, ...]:
        """At most `limit` tools for the model, descriptions cut to 8 KB."""
        specs: list[ToolSpec] = []
        for name, offered in islice(self._iter_available(), limit):
            tool = offered.definition.tool
            words = strip_hidden_text((tool.description or tool.display_name)[:DESCRIPTION_LIMIT]).encode(
                errors="replace"
            )
            # The cut may be in the middle of a character.
            text = words[:DESCRIPTION_LIMIT].decode(errors="ignore")
            specs.append(ToolSpec(name, text, _clean_schema(tool.input_schema)))
        return tuple(specs)


def _clean_schema(schema: Raw) -> Raw:
    """The schema as it came, unless words are hidden in it: the descriptions of arguments are read by the model, too.

    Names and values lose them as well; arguments that no longer fit are then refused before anything is sent.
    """
    if not _HIDDEN_TEXT.search(schema):
        return schema
    return Raw(_TEXT.sub(_clean_text, bytes(schema).decode(errors="replace")).encode())


def _clean_text(text: re.Match[str]) -> str:
    try:
        return dumps(strip_hidden_text(loads(text.group())))
    except MalformedMessage:
        return '"?"'
