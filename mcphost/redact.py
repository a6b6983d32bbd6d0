"""Removes secrets from any text before it is logged, kept in the audit or shown.

Two nets: values we know to be secret because we expanded or loaded them, and shapes that look like secrets.
"""

import re

MARK = "[secret]"
SHORTEST = 6  # shorter known values would tear holes into ordinary words
_LIMIT = 1_000_000

_known: tuple[str, ...] = ()
"""Registered values, the longest first: a value may be the beginning of another."""

# What a key's name ends in, from the word that gives it away; bounded, and without what stands before that word,
# because an unbounded run on either side makes long words quadratic.
_KEY = r"(?:token|secret|passw(?:or)?d|api[_-]?key|authorization|credential|private[_-]?key)[\w.-]{0,60}"
_SECRET_NAME = re.compile(rf"(?i)[\w.-]{{0,60}}{_KEY}|(?:[\w-]{{0,60}}[_-])?(?:key|pat|auth|cookie)")
_SHAPES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL), MARK),
    (re.compile(r"(?i)\b(bearer|basic|dpop)(\s+)[\w.~+/=-]{8,}"), rf"\1\2{MARK}"),
    # user:password@ in an address
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)[^/\s@\"'<>]{1,500}@"), rf"\1{MARK}@"),
    # ?token=…&code=… in an address or a form body
    (
        re.compile(
            r"(?i)([?&#;](?:[\w.-]{0,40}(?:token|secret|passw(?:or)?d|key|sig|signature|auth)|code|code_verifier|state"
            r"|assertion)=)[^&\s\"'<>#]+"
        ),
        rf"\1{MARK}",
    ),
    # "api_key": "…", API_KEY=…, Authorization: …
    (re.compile(rf"(?i)({_KEY}\"\s{{0,8}}:\s{{0,8}}\")(?:[^\"\\]|\\.)+"), rf"\1{MARK}"),
    (
        re.compile(
            rf"(?i)({_KEY}\s{{0,8}}[=:]\s{{0,8}})(?!\[secret\]|bearer |basic |dpop |\d{{1,7}}\b)[^\s\"',;&]{{6,}}"
        ),
        rf"\1{MARK}",
    ),
    # well-known prefixes: OpenAI, Anthropic, GitHub, GitLab, Slack, Google, AWS, Hugging Face, Stripe, npm
    (
        re.compile(
            r"\b(?:sk-[\w-]{16,}|gh[opusr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
            r"|AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}|hf_\w{20,}|[rs]k_(?:live|test)_\w{16,}|npm_\w{30,})"
        ),
        MARK,
    ),
)
# A JSON Web Token. A long word that is none is consumed at once, and kept: trying it again at every "eyJ" inside would
# cost the square of its length.
_JWT = re.compile(r"\beyJ(?:[\w-]{8,}+(?P<rest>\.[\w-]{8,}+\.[\w-]*+)?)?")


def register(secret: str) -> None:
    """From now on this value is removed wherever it appears; values under six characters are ignored."""
    global _known  # noqa: PLW0603 - one process, one set of secrets
    if len(secret) >= SHORTEST and secret not in _known:
        _known = tuple(sorted((*_known, secret), key=len, reverse=True))


def redact(text: str) -> str:
    """`text` without secrets. Never raises; text over a million characters is cut there."""
    if len(text) > _LIMIT:
        text = text[:_LIMIT] + "…"
    return redact_shapes(without_known(text))


def without_known(text: str) -> str:
    """`text` without the values that were registered; fast enough for every line of a server."""
    # No pattern: with alternatives that begin alike, `re` would compare each of them at every character.
    parts = [text]
    for value in _known:
        if value in text:
            parts = [piece for part in parts for piece in part.split(value)]
    return MARK.join(parts)


def looks_secret(name: str, value: str) -> bool:
    """Whether a literal under that key (a header or environment name) is probably a secret."""
    if not value or "${" in value:
        return False
    if len(value) >= SHORTEST and _SECRET_NAME.fullmatch(name):
        return value.lower() not in {"true", "false", "none", "enabled", "disabled"}
    return redact_shapes(value) != value


def redact_shapes(text: str) -> str:
    """Only the net of shapes, for deciding whether a text holds something that looks like a secret."""
    for pattern, mark in _SHAPES:
        text = pattern.sub(mark, text)
    return _JWT.sub(_without_token, text)


def _without_token(match: re.Match[str]) -> str:
    return MARK if match["rest"] else match[0]
