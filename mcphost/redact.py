"""Removes secrets from any text before it is logged, kept in the audit or shown.

Two nets: values we know to be secret because we expanded or loaded them, and shapes that look like secrets.
"""

import re

MARK = "[secret]"
SHORTEST = 6  # shorter known values would tear holes into ordinary words
_LIMIT = 1_000_000

_known: set[str] = set()
_known_pattern: re.Pattern[str] | None = None

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
    # well-known prefixes: OpenAI, Anthropic, GitHub, GitLab, Slack, Google, AWS, Hugging Face, Stripe, npm, JWT
    (
        re.compile(
            r"\b(?:sk-[\w-]{16,}|gh[opusr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}"
            r"|AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}|hf_\w{20,}|[rs]k_(?:live|test)_\w{16,}|npm_\w{30,}"
            r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
        ),
        MARK,
    ),
)


def register(secret: str) -> None:
    """From now on this value is removed wherever it appears; values under six characters are ignored."""
    global _known_pattern  # noqa: PLW0603 - one process, one set of secrets
    if len(secret) < SHORTEST or secret in _known:
        return
    _known.add(secret)
    longest_first = sorted(_known, key=len, reverse=True)
    _known_pattern = re.compile("|".join(re.escape(value) for value in longest_first))


def redact(text: str) -> str:
    """`text` without secrets. Never raises; text over a million characters is cut there."""
    if len(text) > _LIMIT:
        text = text[:_LIMIT] + "…"
    return redact_shapes(without_known(text))


def without_known(text: str) -> str:
    """`text` without the values that were registered; fast enough for every line of a server."""
    return text if _known_pattern is None else _known_pattern.sub(MARK, text)


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
    return text
