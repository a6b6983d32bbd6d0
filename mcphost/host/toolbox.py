"""Unique model-facing names for every tool of every ready server, and back."""

import hashlib
import re
from collections.abc import Callable, Iterable

from mcphost.clean import readable
from mcphost.data import Data, Raw, dumps, loads
from mcphost.errors import MalformedMessage
from mcphost.host.catalog import ListedTool
from mcphost.host.connection import Connection
from mcphost.llm.model import ToolSpec

NAME_LIMIT = 64
RESERVED = "load_skill"
"""The name of the host's own tool, which no server's tool may have."""
DESCRIPTION_LIMIT = 8 * 1024
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]+")
_SUSPECT = re.compile(rb"\xf3\xa0|\xc2[\x80-\x9f]|\x7f|\\u(?:[dD][bB]40|00[0189])|\\[bf]")
"""What a JSON text holds when one of its texts may not be as readable as it looks."""
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


class Offered(Data, frozen=True):
    """One tool as offered to the model."""

    connection: Connection
    listed: ListedTool

    @property
    def stands(self) -> bool:
        """Whether its server still lists exactly this definition."""
        now = self.connection.tool(self.listed.tool.name)
        return now is not None and (now is self.listed or now.digest == self.listed.digest)


class Toolbox:
    """What the model may call. Names stay the same for as long as the host runs."""

    def __init__(self, connections: Callable[[], Iterable[Connection]]) -> None:
        self._connections = connections
        self._names: dict[tuple[str, str], str] = {}
        self._taken: dict[str, tuple[str, str]] = {RESERVED: ("", "")}

    def name(self, server: str, tool: str) -> str:
        """The model-facing name: letters, digits, `_` and `-`, at most 64, never two tools alike."""
        key = (server, tool)
        if key not in self._names:
            whole = plain = _FORBIDDEN.sub("_", f"{server}__{tool}")
            tries = 0
            while len(plain) > NAME_LIMIT or plain in self._taken:
                # Also the marked name may be taken: whoever names tools can compute marks.
                mark = hashlib.sha256(f"{server}\0{tool}\0{tries or ''}".encode()).hexdigest()[:8]
                plain = f"{whole[: NAME_LIMIT - 9]}_{mark}"
                tries += 1
            self._names[key] = plain
            self._taken[plain] = key
        return self._names[key]

    def all(self) -> dict[str, Offered]:
        """Every tool of every ready server by its model-facing name."""
        return {
            self.name(connection.config.name, listed.tool.name): Offered(connection, listed)
            for connection in self._connections()
            if connection.is_ready
            # Servers may list in any order; the same tools in another order would cost the provider's prompt cache.
            for _, listed in sorted(connection.offers.tools.items())
        }

    def resolve(self, name: str) -> Offered | None:
        """The tool behind a model-facing name; None when there is none right now."""
        key = self._taken.get(name)
        if key is None:
            return self.all().get(name)
        return next(
            (
                Offered(connection, listed)
                for connection in self._connections()
                if connection.config.name == key[0] and (listed := connection.tool(key[1])) is not None
            ),
            None,
        )

    def specs(self, limit: int) -> tuple[ToolSpec, ...]:
        """At most `limit` tools for the model, descriptions cut to 8 KB."""
        specs: list[ToolSpec] = []
        for name, offered in self.all().items():
            if len(specs) == limit:
                break
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
