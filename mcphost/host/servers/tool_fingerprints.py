"""Digest of a tool definition, computed from its raw bytes so that it covers every field."""

import hashlib
import json

from mcphost.errors import MalformedMessage
from mcphost.serialization import Raw, encode_sorted, loads

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
# Digits, and the characters after a digit in a number that is not an integer.
_DIGITS = bytes(0x30 if byte in b"0123456789" else 0x65 if byte in b".eE" else 0x20 for byte in range(256))
_MANY_DIGITS = b"0" * 18


def fingerprint(definition: Raw | bytes) -> str:
    """Return the hex SHA-256 of the canonical JSON (sorted keys), unknown fields included."""
    raw = bytes(definition)
    try:
        value = loads(raw)
        canonical = encode_sorted(value) if _is_fast_encodable(raw) else _CANONICAL.encode(value).encode()
    except (MalformedMessage, RecursionError, ValueError):
        # Invalid JSON: any change of the bytes is a change.
        canonical = raw
    return hashlib.sha256(canonical).hexdigest()


def _is_fast_encodable(raw: bytes) -> bool:
    """Return whether both encoders write the same: ASCII without escapes, only short integers.

    `encode_sorted` takes a tenth of the time.
    """
    if not raw.isascii() or b"\\" in raw or b"\x7f" in raw:
        return False
    digits = raw.translate(_DIGITS)
    return b"0e" not in digits and _MANY_DIGITS not in digits
