"""The digest of a tool definition, taken from its raw bytes so that no field escapes it."""

import hashlib
import json

from mcphost.errors import MalformedMessage
from mcphost.serialization import Raw, encode_sorted, loads

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)
# Digits, and what stands behind one in a number that is no integer.
_DIGITS = bytes(0x30 if byte in b"0123456789" else 0x65 if byte in b".eE" else 0x20 for byte in range(256))
_MANY_DIGITS = b"0" * 18


def fingerprint(definition: Raw | bytes) -> str:
    """SHA-256 over the canonical JSON (keys sorted) of the whole definition, unknown fields included, as hex."""
    raw = bytes(definition)
    try:
        value = loads(raw)
        canonical = encode_sorted(value) if _is_fast_encodable(raw) else _CANONICAL.encode(value).encode()
    except (MalformedMessage, RecursionError, ValueError):
        # Not worth being clever about: any change of the bytes counts as a change.
        canonical = raw
    return hashlib.sha256(canonical).hexdigest()


def _is_fast_encodable(raw: bytes) -> bool:
    """Return whether both encoders write the same: ASCII without escapes, and no number but short integers.

    `encode_sorted` takes a tenth of the time.
    """
    if not raw.isascii() or b"\\" in raw or b"\x7f" in raw:
        return False
    digits = raw.translate(_DIGITS)
    return b"0e" not in digits and _MANY_DIGITS not in digits
