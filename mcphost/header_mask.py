"""Mask for the values of configured HTTP headers, all of which may be secrets, regardless of their names."""

from collections.abc import Iterable, Mapping
from typing import Final

from mcphost.redact import PLACEHOLDER

HARMLESS_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "content-length",
        "content-type",
        "host",
        "mcp-protocol-version",
        "user-agent",
    }
)
"""Standard headers whose configured values are shown."""
_MIN_MIXED = 8
_MIN_ANY = 16
"""Minimum length of a value that is masked in any text, unless _MIN_MIXED applies (letters and digits)."""


class HeaderMask:
    """Mask that replaces the values of one server's configured headers in other headers and in text.

    A value is always masked in the header for which it was configured. Elsewhere, for example in an error message in
    which the server repeats the headers that it received, a value is masked unless it is an ordinary word.
    """

    __slots__ = ("_pairs", "_values")

    def __init__(self, headers: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = frozenset(
            (name.lower(), value.strip()) for name, value in headers if name.lower() not in HARMLESS_HEADERS
        )
        values: set[str] = set()
        for name, value in self._pairs:
            for text in list_distinctive(name, value):
                values |= {text, text.replace("\\", "\\\\").replace('"', '\\"')}  # as it is, and in JSON
        self._values = tuple(sorted(values, key=len, reverse=True))

    def extend(self, headers: Mapping[str, str]) -> "HeaderMask":
        """Return a mask that also covers *headers*."""
        return HeaderMask((*self._pairs, *headers.items()))

    def mask_header(self, name: str, value: str) -> str:
        """Return the value of the header *name* (in lower case) with configured values masked."""
        return PLACEHOLDER if (name, value.strip()) in self._pairs else self.mask_text(value)

    def mask_text(self, text: str) -> str:
        """Return *text* with configured values masked, except for ordinary words."""
        for value in self._values:
            text = text.replace(value, PLACEHOLDER)
        return text


NO_MASK: Final = HeaderMask()


def list_distinctive(name: str, value: str) -> tuple[str, ...]:
    """Return the strings to mask in text for one configured header.

    These are the header's value, and the value without a scheme such as "Bearer", unless they are ordinary words. The
    result is empty for a standard header whose value is not a secret.
    """
    texts = (value.strip(), value.strip().partition(" ")[2].strip())
    return () if name.lower() in HARMLESS_HEADERS else tuple(filter(_is_distinctive, texts))


def _is_distinctive(value: str) -> bool:
    is_mixed = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    return len(value) >= (_MIN_MIXED if is_mixed else _MIN_ANY)
