"""The digest of a tool definition, taken from its raw bytes so that no field escapes it."""

import hashlib
import json

from mcphost.data import Raw, loads
from mcphost.errors import MalformedMessage


def fingerprint(definition: Raw | bytes) -> str:
    """SHA-256 over the canonical JSON (keys sorted) of the whole definition, unknown fields included, as hex."""
    raw = bytes(definition)
    try:
        canonical = json.dumps(loads(raw), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    except (MalformedMessage, RecursionError, ValueError):
        # Not worth being clever about: any change of the bytes counts as a change.
        canonical = raw
    return hashlib.sha256(canonical).hexdigest()
