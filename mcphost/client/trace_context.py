"""Trace context for stateless requests, taken from the environment if it is present and valid.

No context is generated: a user who starts mcphost inside a trace sets TRACEPARENT, and servers see the same trace
(specification 2026-07-28, basic/index `_meta`; W3C Trace Context level 1 and Baggage).
"""

import re
from collections.abc import Mapping

NO_TRACE: Mapping[str, str] = {}
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_\-*/]{0,255}(@[a-z][a-z0-9_\-*/]{0,13})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}"
)
# name=value, optionally followed by properties after semicolons
_BAGGAGE_MEMBER = re.compile(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]+ ?= ?[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*(;[\x20-\x2b\x2d-\x7e]*)?"
)
_MAX_TRACESTATE_MEMBERS = 32
_MAX_BAGGAGE_LENGTH = 8_192


def read_trace_context(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the `_meta` members for valid values of TRACEPARENT, TRACESTATE and BAGGAGE."""
    context: dict[str, str] = {}
    parent = environ.get("TRACEPARENT", "").strip()
    if _TRACEPARENT.fullmatch(parent):
        context["traceparent"] = parent
        state = environ.get("TRACESTATE", "").strip()
        if state and _all_match(state, _TRACESTATE_MEMBER, _MAX_TRACESTATE_MEMBERS):
            context["tracestate"] = state
    baggage = environ.get("BAGGAGE", "").strip()
    if baggage and len(baggage) <= _MAX_BAGGAGE_LENGTH and _all_match(baggage, _BAGGAGE_MEMBER, 64):
        context["baggage"] = baggage
    return context


def _all_match(text: str, member: re.Pattern[str], limit: int) -> bool:
    members = text.split(",")
    return len(members) <= limit and all(member.fullmatch(item.strip()) for item in members)
