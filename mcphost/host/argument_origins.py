"""Origins of tool call arguments: the servers and files from which they were copied."""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeVar

from mcphost.serialization import Struct, dumps

EARLIER_PREFIX = "/earlier/"
"""Prefix of the name that stands for an earlier server of the same name; no server's name begins with a slash."""

MediaKind = Literal["image", "pdf", "audio"]


class MediaOrigin(Struct, frozen=True):
    """A kind of media in a conversation, such as images, that may be the origin of an argument.

    A model can read text in media and copy it to arguments, but mcphost cannot search media for text. `server` is
    the server that the media came from, or FILES for attached files.
    """

    server: str
    kind: MediaKind


def argument_path(name: str) -> str:
    """Return the path of a top-level argument, which is the argument's name.

    A name that could be mistaken for a longer path, such as `a.b`, is written as a JSON string.
    """
    return dumps(name) if name[:1] == '"' or any(mark in name for mark in ".[]") else name


def member_path(path: str, key: str) -> str:
    """Return the path of the member *key* of the object at *path*, such as `a.b` or `a["b.c"]`."""
    return f"{path}.{key}" if key.isidentifier() else f"{path}[{dumps(key)}]"


class ArgumentOrigin(Struct, frozen=True, kw_only=True):
    """Part of an argument that also occurs in text from another server or in an attached file.

    - `argument` is the path of the argument, such as `body`, `to[0]` or `options.text`. If the copied text is
      spread over several arguments, it contains all their paths, separated by plus signs.
    - `server` is the server that the text came from, or `FILES` for an attached file.
    - `source` names the tool, resource or prompt.
    - `characters` is the length of the copied text.
    - `encoding` is the encoding of the copy, such as "base64"; "" means none.
    - `spans` are the start and end of each copied part within the argument.
    - `digest` is the SHA-256 (hex) of the copied text.
    - `is_typed` means that the user typed the same text.
    - `is_own` means that the called server provided the same text.
    """

    argument: str
    server: str
    source: str
    characters: int
    encoding: str = ""
    spans: tuple[tuple[int, int], ...] = ()
    digest: str = ""
    is_typed: bool = False
    is_own: bool = False


class ArgumentOrigins(Struct, frozen=True, kw_only=True):
    """Origins of the arguments of one tool call: the servers and files they were copied from.

    - `found` contains the origins; if there are too many, it contains at least one for each server.
    - `omitted` is the number of origins that `found` does not contain.
    - `unchecked` names the servers from which text may have been copied unnoticed: not all of their texts were
      compared with the arguments, or they sent media. It contains `OTHER_SERVERS` if the arguments are too large to
      be compared.
    - `media` are the images, PDF files and audio that were sent to the model.
    - `are_texts_complete` is True if media are the only reason why `unchecked` names servers.
    - `aliases` names the servers that may be the same as a server in `found` or `unchecked`, such as the user's
      entry for a server that a project also configures. It contains `OTHER_SERVERS` if one of the servers in
      `found` or `unchecked` is no longer configured.
    - `must_be_named` is True if `[consent] origins = "ask"` was in use when the call was proposed. A rule or grant must
      then name all servers in `found` and `unchecked`; otherwise, it does not allow the call without asking the user.
    """

    found: tuple[ArgumentOrigin, ...] = ()
    unchecked: frozenset[str] = frozenset()
    aliases: frozenset[str] = frozenset()
    omitted: int = 0
    media: tuple[MediaOrigin, ...] = ()
    are_texts_complete: bool = True
    must_be_named: bool = False

    @property
    def servers(self) -> frozenset[str]:
        """The names of all servers whose text occurs in the arguments."""
        return frozenset(origin.server for origin in self.found)


NO_ORIGINS = ArgumentOrigins()


class _FromServer(Protocol):
    @property
    def server(self) -> str: ...


_Origin = TypeVar("_Origin", bound=_FromServer)


def shorten(origins: Sequence[_Origin], limit: int) -> list[_Origin]:
    """Return the first *limit* origins in the given order, but at least the first origin of each server.

    The result is therefore longer than *limit* if there are more than *limit* servers.
    """
    firsts: dict[str, int] = {}
    for number, origin in enumerate(origins):
        firsts.setdefault(origin.server, number)
    kept = set(firsts.values())
    others = (number for number in range(len(origins)) if number not in kept)
    kept.update(number for number, _ in zip(others, range(limit - len(kept)), strict=False))
    return [origins[number] for number in sorted(kept)]
