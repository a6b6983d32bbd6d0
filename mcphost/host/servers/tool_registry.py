"""Unique model-facing names for every tool of every ready server, and back."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice

from mcphost.config.schema import ServerConfig
from mcphost.errors import MalformedMessage
from mcphost.host.reserved_names import RESERVED
from mcphost.host.servers.catalog import ListedTool
from mcphost.host.servers.connection import Connection
from mcphost.llm.model import ToolSpec
from mcphost.sanitize import readable
from mcphost.serialization import Data, Raw, dumps, loads

NAME_LIMIT = 64
_LOOKED_AT = 4 * NAME_LIMIT
"""Characters of a longer name from which the model-facing one is made; its mark is made of all of them."""
DESCRIPTION_LIMIT = 8 * 1024
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
_SUSPECT = re.compile(rb"\xf3\xa0|\xc2[\x80-\x9f]|\x7f|\\u(?:[dD][bB]40|00[0189])|\\[bf]")
"""What a JSON text holds when one of its texts may not be as readable as it looks."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?')


def _nobody(_server: ServerConfig, _tool: str) -> str:
    return ""


class Offered(Data, frozen=True):
    """One tool as offered to the model."""

    connection: Connection
    listed: ListedTool
    account: str
    """Whose account its server was used with then."""

    is_off: Callable[[], bool] = lambda: False
    """Whether the user switched it off for the model; what the user calls cannot be off."""

    @property
    def stands(self) -> bool:
        """Whether its server still lists exactly this definition, and the model may still have it called."""
        if self.is_off():
            return False
        now = self.connection.tool(self.listed.name)
        return now is not None and (now is self.listed or now.digest == self.listed.digest)


class Toolbox:
    """What the model may call. Names stay the same for as long as the host runs."""

    def __init__(
        self, connections: Callable[[], Iterable[Connection]], off: Callable[[ServerConfig, str], str] = _nobody
    ) -> None:
        """`off` says who switched a tool off, in words or not at all."""
        self._connections = connections
        self._off = off
        self._names: dict[tuple[str, str], str] = {}
        self._taken: dict[str, tuple[str, str]] = dict.fromkeys(RESERVED, ("", ""))

    def name(self, server: str, tool: str) -> str:
        """The model-facing name: letters, digits, `_` and `-`, at most 64, never two tools alike."""
        key = (server, tool)
        if key not in self._names:
            is_long = len(server) + 2 + len(tool) > _LOOKED_AT
            whole = plain = f"{server}__{tool[:_LOOKED_AT]}"[:_LOOKED_AT]
            if not (plain.isascii() and plain.replace("-", "_").isidentifier()):  # most are, and that is found faster
                whole = plain = _FORBIDDEN.sub("_", plain)
            tries = 0
            while len(plain) > NAME_LIMIT or plain in self._taken or (is_long and not tries):
                # Also the marked name may be taken: whoever names tools can compute marks.
                mark = hashlib.sha256(f"{server}\0{tool}\0{tries or ''}".encode()).hexdigest()[:8]
                plain = f"{whole[: NAME_LIMIT - 9]}_{mark}"
                tries += 1
            self._names[key] = plain
            self._taken[plain] = key
        return self._names[key]

    def all(self) -> dict[str, Offered]:
        """Every tool of every ready server that is neither held back nor off, by its model-facing name."""
        return dict(self._free())

    def _free(self) -> Iterator[tuple[str, Offered]]:
        for name, offered in self._every():
            if offered.listed.name not in offered.connection.drift.held and not offered.is_off():
                yield name, offered

    def _every(self) -> Iterator[tuple[str, Offered]]:
        for connection in self._connections():
            if connection.is_ready:
                # Servers may list in any order; the same tools in another order would cost the provider's prompt cache.
                for name, listed in sorted(connection.offers.tools.items()):
                    yield self.name(connection.config.name, name), self._offered(connection, listed)

    def _offered(self, connection: Connection, listed: ListedTool) -> Offered:
        off = partial(self._off, connection.config, listed.name)
        return Offered(connection, listed, connection.account, lambda: bool(off()))

    def resolve(self, name: str) -> Offered | None:
        """The tool behind a model-facing name, also one that is held back or off; None when there is none now."""
        key = self._taken.get(name)
        if key is None:
            return dict(self._every()).get(name)
        return next(
            (
                self._offered(connection, listed)
                for connection in self._connections()
                if connection.config.name == key[0] and (listed := connection.tool(key[1])) is not None
            ),
            None,
        )

    def specs(self, limit: int) -> tuple[ToolSpec, ...]:
        """At most `limit` tools for the model, descriptions cut to 8 KB."""
        specs: list[ToolSpec] = []
        for name, offered in islice(self._free(), limit):
            tool = offered.listed.tool
            words = readable((tool.description or tool.label)[:DESCRIPTION_LIMIT]).encode(errors="replace")
            # The cut may be in the middle of a character.
            text = words[:DESCRIPTION_LIMIT].decode(errors="ignore")
            specs.append(ToolSpec(name, text, _plain(tool.input_schema)))
        return tuple(specs)


def _plain(schema: Raw) -> Raw:
    """The schema as it came, unless words are hidden in it: the descriptions of arguments are read by the model, too.

    Names and values lose them as well; arguments that no longer fit are then refused before anything is sent.
    """
    if not _SUSPECT.search(schema):
        return schema
    return Raw(_TEXT.sub(_read, bytes(schema).decode(errors="replace")).encode())


def _read(text: re.Match[str]) -> str:
    try:
        return dumps(readable(loads(text.group())))
    except MalformedMessage:
        return '"?"'
