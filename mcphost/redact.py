"""Redaction of secrets before text is logged, stored in the audit log or displayed.

Two kinds of text are redacted: registered secrets, and text that matches patterns of secrets.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

PLACEHOLDER = "[secret]"
MIN_SECRET_LENGTH = 6  # shorter values would also match parts of ordinary words
STRONG_SECRET_LENGTH = 16
"""Minimum length at which a secret with both digits and letters is strong; see `is_strong`."""
_STRONG_LENGTH_OF_ANY = 32
_ESCAPED_REFERENCE = re.compile(r"\$\{\$\}(?:\{[^{}$]{0,200}\})?")
_SCHEMES = ("bearer", "basic", "token", "dpop", "apikey")
_MAX_RECEIVED = 200  # each log line of a server is searched for each value
_TEXT_LIMIT = 1_000_000

_user_secrets: tuple[str, ...] = ()
"""Registered secrets of the user and of mcphost."""
_received_secrets: dict[str, str] = {}
"""Registered values chosen by servers, in order of arrival, with the issuer of each."""
_all_secrets: tuple[str, ...] = ()
"""All registered values, the longest first, because a value can be a prefix of another."""

# The end of a key's name, from the word that marks it as secret on; bounded, and without the text before that word,
# because an unbounded match on either side would take quadratic time for long words.
_SENSITIVE_WORDS = (
    r"(?:token(?<!progresstoken)|secret|passw(?:or)?d|pass[_-]?phrase|api[_-]?key|authorization|credential"
    r"|(?:private|access|account)[_-]?key)"
)
_SENSITIVE_NAMES = rf"{_SENSITIVE_WORDS}[\w.-]{{0,60}}+"
_SECRET_NAME = re.compile(rf"(?i)[\w.-]{{0,60}}{_SENSITIVE_NAMES}|(?:[\w-]{{0,60}}[_-])?(?:key|pat|auth|cookie)")
# Well-known prefixes: OpenAI, Anthropic, GitHub, GitLab, Slack, Google, AWS, Hugging Face, Stripe, npm, Tavily,
# Supabase, Groq, xAI, Perplexity, Figma, Notion, Linear, PyPI, SendGrid, HashiCorp Vault, DigitalOcean, Shopify,
# Docker, Atlassian, age, Telegram.
_API_KEY = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[opusr]_\w{20,}|github_pat_\w{20,}|gl(?:pat|rt|dt|cbt|ptt|ft|agent)-[\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|xapp-[\w-]{10,}"
    r"|(?:AIza|ya29\.)[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}|hf_\w{20,}|[rs]k_(?:live|test)_\w{16,}|npm_\w{30,}"
    r"|tvly-[\w-]{16,}|sbp_\w{20,}|gsk_\w{20,}|xai-\w{30,}|pplx-\w{20,}|figd_[\w-]{20,}|ntn_\w{20,}|lin_api_\w{20,}"
    # names of packages begin with "pypi-", too
    r"|pypi-(?:AgE[\w-]{16,}|[\w-]{50,})|SG\.[\w-]{16,}+\.[\w-]{16,}|hvs\.[\w-]{20,}|dop_v1_\w{20,}"
    r"|shp(?:at|ca|pa|ss)_\w{20,}|dckr_[op]at_[\w-]{20,}|ATATT3[\w=-]{20,}|AGE-SECRET-KEY-1\w{20,}"
    # the path of a Telegram URL has "bot" before the token
    r"|\d{8,10}:AA[\w-]{30,})|(?<=bot)\d{8,10}:AA[\w-]{30,}"
)
# A flag such as --token or --db-password, up to its value. The value of --token-file is not a secret.
_SECRET_FLAG = (
    rf"(?<![\w-])--?[\w-]{{0,40}}?{_SENSITIVE_WORDS}s?"
    r"(?![\w-]{0,30}(?:file|path|dir|url|uri|endpoint|issuer|env|name|header|prefix|format|id|type|store|stdin|command"
    r"|ttl|timeout|limit|count|size|length)\b)"
    r"[\w-]{0,30}+(?:\\{0,4}[\"'])?(?:\s{0,8},\s{0,8}|\s{1,8})"
)
# An upper-case word that stands for a value: the name of a variable, or a word in a usage message such as API_KEY.
_PLACEHOLDER_WORD = (
    r"(?-i:(?:[A-Z0-9]{1,20}_){0,5}(?:[A-Z]{0,12}?(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|VALUE"
    r"|STRING|STDIN|PROMPT|NAME|FILE)S?|PASS|PWD|PW|PAT|AUTH|AUTHORIZATION|JWT|ID|URL|PATH|VAR|ENV|HERE|TEXT)"
    r"(?:_[A-Z0-9]{1,20}){0,5}+)"
)
# What often follows the name of a flag, but is no secret: another flag, a reference, a placeholder, a number, a word.
_PLAIN_VALUE = (
    rf"(?!\[|\$|<|\{{|-|\d{{1,7}}\b|{_PLACEHOLDER_WORD}(?![\w./+=-])|(?:bearer|basic|dpop) "
    r"|(?:cannot|should|required|requires|missing|option|options|argument|arguments|values|parameter|parameters|instead"
    r"|expected|expects|before|specifies|contains|because|either|without|environment|variable|invalid|conflicts"
    r"|deprecated|ignored|unknown)(?![\w-]))"
)
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z ]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z ]{0,100}PRIVATE KEY(?: BLOCK)?-----")
_MAX_KEY_LINES = 200
"""Maximum lines redacted after the first line of a private key whose end is missing; a long RSA key has as many."""
_SECRET_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(rf"{_KEY_BEGIN.pattern}.*?(?:{_KEY_END.pattern}|\Z)", re.DOTALL),
        PLACEHOLDER,
    ),
    (re.compile(r"(?i)\b(bearer|basic|dpop)(\s+)[\w.~+/=-]{8,}"), rf"\1\2{PLACEHOLDER}"),
    # user:password@ in a URL, up to the last @ before the host. The user ends at "/", "?" and "#" (RFC 3986, section
    # 3.2). Many people write "?" and "#" in passwords, however; what stands before them is then no host with a port.
    (
        re.compile(
            r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)(?:[^/?#\s\"'<>]{1,500}"
            r"|[^/?#\s@\"'<>:\[\]]{0,100}:(?!\d{0,100}[?#])[^/\s@\"'<>]{1,500})@"
        ),
        rf"\1{PLACEHOLDER}@",
    ),
    # the same if it cannot be told from a query; the host, which stands before the query, is kept
    (
        re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://[^/?#\s@\"'<>]{1,300}[?#])[^/\s@\"'<>]{1,500}@"),
        rf"\1{PLACEHOLDER}@",
    ),
    # ?token=…&code=… in a URL or a form body
    (
        re.compile(
            r"(?i)([?&#;](?:[\w.-]{0,40}(?:token|secret|passw(?:or)?d|key|sig|signature|auth)|code|code_verifier|state"
            r"|assertion)=)[^&\s\"'<>#]+"
        ),
        rf"\1{PLACEHOLDER}",
    ),
    (re.compile(r"(?i)(hooks\.slack\.com/services/)[\w/]{10,}"), rf"\1{PLACEHOLDER}"),
    # schemes of Authorization headers that are not among those above
    (
        re.compile(
            r"(?i)(authorization(?:\\{0,4}[\"'])?\s{0,8}[=:]\s{0,8}(?:\\{0,4}[\"'])?"
            r"(?:token|key|api-?key|bot|negotiate|ntlm|sso-key|private-?token)[ \t]{1,8})[^\s\"',;]{8,}"
        ),
        rf"\1{PLACEHOLDER}",
    ),
    # Cookie: name=value; name=value
    (
        re.compile(
            r"(?i)(\b(?:set-)?cookie(?:\\{0,4}[\"'])?\s{0,8}[=:]\s{0,8}(?:\\{0,4}[\"'])?)"
            r"[^\s=;\"'\\]{1,100}=[^\"'\\\r\n]{4,}"
        ),
        rf"\1{PLACEHOLDER}",
    ),
    # "api_key": "…", API_KEY=…, Authorization: …
    (re.compile(rf"(?i)({_SENSITIVE_NAMES}\"\s{{0,8}}:\s{{0,8}}\")(?:[^\"\\]|\\.)+"), rf"\1{PLACEHOLDER}"),
    (
        re.compile(
            rf"(?i)({_SENSITIVE_NAMES}\s{{0,8}}[=:]\s{{0,8}})(?!\[secret\]|bearer |basic |dpop |\d{{1,7}}\b)"
            r"[^\s\"',;&]{6,}"
        ),
        rf"\1{PLACEHOLDER}",
    ),
    # the same in other quotes: 'api_key': '…', password='…', \"token\": \"…\"; names of variables are kept
    (
        re.compile(
            rf"(?i)({_SENSITIVE_NAMES}(?:\\{{0,4}}[\"'])?\s{{0,8}}[=:]\s{{0,8}}(?P<quote>\\{{0,4}}[\"']))"
            r"(?!\[secret\]|\$\{|bearer |basic |dpop |\d{1,7}\b"
            rf"|{_PLACEHOLDER_WORD}(?P=quote))"
            r"(?:(?!(?P=quote))(?:\\.|[^\r\n])){6,}+"
        ),
        rf"\1{PLACEHOLDER}",
    ),
    (_API_KEY, PLACEHOLDER),
    # --token …, --api-key "…", '--password', '…'
    (
        re.compile(
            rf"(?i)({_SECRET_FLAG}(?P<quote>\\{{0,4}}[\"'])){_PLAIN_VALUE}"
            r"(?:(?!(?P=quote))(?:\\.|[^\r\n])){6,}+"
        ),
        rf"\1{PLACEHOLDER}",
    ),
    (re.compile(rf"(?i)({_SECRET_FLAG}){_PLAIN_VALUE}[^\s\"',;\\]{{6,}}"), rf"\1{PLACEHOLDER}"),
)
# --key, --deploy-key, --pat, --auth or --cookie with its value. Many programs use these names for other values, too.
_AMBIGUOUS_FLAG = re.compile(
    r"(?i)(?P<flag>(?<![\w-])--?(?:[\w-]{0,40}[_-])?(?P<name>key|pat|auth|cookie)(?:\\{0,4}[\"'])?"
    r"(?:\s{0,8}[,=]\s{0,8}|\s{1,8})(?:\\{0,4}[\"'])?)(?P<value>[^\s\"',;\\]{6,})"
)
_NO_KEY = re.compile(r"[/@*?$|&<>(){}\[\]`]|\.[A-Za-z][A-Za-z0-9]{0,4}\Z")
"""Matches in addresses, paths, names of packages and files, references, patterns and commands."""
_HEXADECIMAL = re.compile(r"[0-9a-fA-F-]{32,}")
_MIXED_LENGTH = 12
# A JSON Web Token. A long word that is not a token is consumed, but kept: trying again at each "eyJ" inside it would
# take quadratic time.
_JWT = re.compile(r"\beyJ(?:[\w-]{8,}+(?P<rest>\.[\w-]{8,}+\.[\w-]*+)?)?")


# Names of members whose value is secret even if it is a number, a list or an object. Other words in a name say what
# else it is: the number of tokens, the address of a token endpoint, the name of a secret.
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET_WORDS = re.compile(
    r"(?:token|secret|passw(?:or)?d|passphrase|pass_phrase|passcode|api_?key|authorization|credential"
    r"|(?:private|access|account)_?key)(?P<plural>s?)(?=_|\Z)"
)
_OTHER_WORD = re.compile(
    r"(?:allowed|available|budget|class|cost|count|counts|details|enabled|endpoint|endpoints|estimate|exp"
    r"|expiration|expires|expiry|field|fields|file|files|format|has|id|ids|index|is|kind|len|length|level"
    r"|limit|limits|line|logprobs|max|maximum|metadata|method|methods|min|minimum|mode|name|names|num"
    r"|number|offset|page|path|per|policies|policy|position|prefix|price|progress|public|rate|required"
    r"|rules|schema|scope|scopes|servers|size|store|suffix|supported|threshold|timeout|total|ttl|type"
    r"|types|uri|url|usage|used|version|window)"
)
_PLAIN_WORDS = frozenset({"true", "false", "none", "null", "enabled", "disabled"})
"""Values under the name of a secret that say only whether there is one."""
_SHORT_SECRET_NAMES = frozenset({"pass", "pwd", "pin", "otp", "totp", "cvv", "cvc"})
_MIN_PIN = 1_000
"""Smaller numbers under the name "pin" are pins of a chip, not personal identification numbers."""
_SCHEMA_PARENTS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_SCHEMA_KEYS = frozenset(
    {
        "type", "$ref", "anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "description", "title", "minLength",
        "maxLength", "pattern", "readOnly", "writeOnly", "properties", "additionalProperties",
    }
)  # fmt: skip
_NAMES_OF_PROPERTIES = "dependentRequired"
"""Member of a JSON schema whose members are lists of names."""
_SCHEMA_VALUES = frozenset({"default", "const", "examples"})
_PROTOCOL_MEMBERS = frozenset({"progressToken"})
"""Members of MCP messages with a name like that of a secret."""


def register_secret(secret: str) -> None:
    """Register one of the user's secrets, so that it is redacted from now on, also in JSON-escaped form.

    Values shorter than six characters are ignored.
    """
    global _user_secrets, _all_secrets  # noqa: PLW0603 - one process, one set of secrets
    if len(secret) >= MIN_SECRET_LENGTH and secret not in _user_secrets:
        in_json = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        _user_secrets = _longest_first({*_user_secrets, secret, in_json})
        _all_secrets = _longest_first({*_user_secrets, *_received_secrets})


def register_server_secret(secret: str, issuer: str = "") -> None:
    """Register a secret chosen by a server, such as a token, so that it is redacted in logs and messages.

    A value that could be an ordinary word is ignored: a server that issues the token "filesystem" must not be able
    to hide that word everywhere. At most 200 values are kept. Beyond that, the oldest value from the *issuer* with
    the most values is dropped, so an issuer of short-lived tokens does not displace other issuers' tokens.
    """
    global _all_secrets  # noqa: PLW0603 - one process, one set of secrets
    if is_strong(secret) and secret not in _received_secrets:
        _received_secrets[secret] = issuer
        if len(_received_secrets) > _MAX_RECEIVED:
            ((largest, _),) = Counter(_received_secrets.values()).most_common(1)
            del _received_secrets[next(value for value, source in _received_secrets.items() if source == largest)]
        _all_secrets = _longest_first({*_user_secrets, *_received_secrets})


def forget_secrets() -> None:
    """Forget all registered secrets, so that a second run in the same process starts without them."""
    global _user_secrets, _all_secrets  # noqa: PLW0603 - one process, one set of secrets
    _user_secrets = _all_secrets = ()
    _received_secrets.clear()


def is_strong(secret: str) -> bool:
    """Return whether a value is too long and varied to be an ordinary word.

    A strong value has at least 16 characters, including a letter and a digit, or at least 32 characters of any kind.
    """
    mixed = any(char.isdigit() for char in secret) and any(char.isalpha() for char in secret)
    return len(secret) >= (STRONG_SECRET_LENGTH if mixed else _STRONG_LENGTH_OF_ANY)


def redact(text: str) -> str:
    """Return *text* with secrets removed, truncated after a million characters. Never raises."""
    if len(text) > _TEXT_LIMIT:
        text = text[:_TEXT_LIMIT] + "…"
    return redact_patterns(redact_registered(text))


def redact_identifier(name: str) -> str:
    """Remove the user's strong secrets (see `is_strong`) from a name that is written to the audit log.

    All other text is kept, even if it looks like a secret or is a server's token; otherwise, servers could hide
    names by using them as tokens. If a secret was removed, the name's digest is appended (see `identifier_digest`),
    so that the name can still be identified.
    """
    name = name[:_TEXT_LIMIT]
    shown = _replace_values(name, [value for value in _user_secrets if is_strong(value)])
    return name if shown == name else shown + identifier_digest(name)


def identifier_digest(name: str) -> str:
    """Return the digest of a name as text that can be appended to the redacted name."""
    return f" [sha256 {hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}]"


def redact_command(text: str) -> str:
    """Remove text that looks like a secret from a command, a URL or a rule's conditions for the audit log.

    Of the registered secrets, only the user's strong ones (see `is_strong`) are removed.
    """
    return redact_patterns(_replace_values(text[:_TEXT_LIMIT], [value for value in _user_secrets if is_strong(value)]))


def redact_values(value: Any) -> Any:
    """Redact secrets in JSON data, including values that are probably secrets according to their keys.

    The keys themselves are not changed. See `is_probable_secret` for what counts as probable, and `mask_members` for
    values that are not texts.
    """
    return _redact_texts(mask_members(value))


def mask_members(value: Any, parent: str = "") -> Any:
    """Mask numbers, lists and objects under the name of a secret in JSON data, such as `{"password": ["x"]}`.

    Every value inside is masked, except booleans, null, references such as `${env:NAME}`, and numbers that count
    something, as in `max_tokens`. Texts directly under such a name are left to `redact`. In a JSON schema, only the
    default value and the examples of a secret are masked. *parent* is the name of the member that contains *value*.
    """
    if value is None or isinstance(value, str | int | float):  # most values, and much faster than the checks below
        return value
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value)
        return {name: _mask_member(str(name)[:200], inner, parent) for name, inner in members.items()}
    if isinstance(value, list | tuple):
        return [mask_members(inner) for inner in cast("Sequence[Any]", value)]
    return value


def may_have_secret_members(text: str) -> bool:
    """Return whether `mask_members` may change the JSON *text*; this is much faster."""
    return _MEMBER_HINT.search(text) is not None


_MEMBER_HINT = re.compile(r"(?i)token|secret|pass|key|authorization|credential|pwd|pin|otp|cv[vc]")


def _mask_member(name: str, value: Any, parent: str) -> Any:
    if value is None or isinstance(value, bool) or name in _PROTOCOL_MEMBERS or parent == _NAMES_OF_PROPERTIES:
        return value
    if not may_have_secret_members(name):
        return mask_members(value, name)
    short = name.lower()
    if short in _SHORT_SECRET_NAMES:
        return _mask_short(short, value)
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    found = _SECRET_WORDS.search("_".join(words))
    if found is None or _counts_or_describes(words) or isinstance(value, str):
        return mask_members(value, name)
    is_plural = bool(found["plural"])
    if isinstance(value, int | float):
        return value if is_plural else PLACEHOLDER
    schema: Mapping[Any, Any] = {}
    if parent in _SCHEMA_PARENTS and isinstance(value, Mapping):
        schema = cast("Mapping[Any, Any]", value)
    if not _SCHEMA_KEYS.isdisjoint(schema):
        return {
            key: _mask_leaves(inner) if key in _SCHEMA_VALUES else mask_members(inner, str(key))
            for key, inner in schema.items()
        }
    # the tokens of a text, and counts of them, are called "tokens" like those of a sign-in
    return _mask_leaves(value, are_tokens=is_plural and found[0] == "tokens")


def _counts_or_describes(words: list[str]) -> bool:
    """Return whether a name with these words counts or describes secrets, such as `max_tokens`."""
    is_design = "design" in words and not {"token", "tokens"}.isdisjoint(words)
    return is_design or any(map(_OTHER_WORD.fullmatch, words))


def _mask_short(name: str, value: Any) -> Any:
    """Mask the value of a member such as `pin` or `pass`, unless it is a count, a path or the pin of a chip."""
    if isinstance(value, Mapping | list | tuple):
        return mask_members(value, name)
    if isinstance(value, str):
        is_pin = name != "pin" or (value.isdecimal() and len(value) >= len(str(_MIN_PIN)))
        is_plain = len(value) < len(str(_MIN_PIN)) or value.lower() in _PLAIN_WORDS or "/" in value
        return PLACEHOLDER if is_pin and not is_plain else value
    is_count = name in ("pass", "pwd") or (name == "pin" and value < _MIN_PIN)
    return value if is_count else PLACEHOLDER


def _mask_leaves(value: Any, name: str = "", *, are_tokens: bool = False) -> Any:
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value).items()
        return {key: _mask_leaves(inner, str(key)[:200], are_tokens=are_tokens) for key, inner in members}
    if isinstance(value, list | tuple):
        return [_mask_leaves(inner, name, are_tokens=are_tokens) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, str):
        is_short = len(value) < (MIN_SECRET_LENGTH if are_tokens else 1)
        return value if is_short or (value.startswith("${") and value.endswith("}")) else PLACEHOLDER
    if value is None or isinstance(value, bool) or are_tokens:
        return value
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return value if _counts_or_describes(words) else PLACEHOLDER


def _redact_texts(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _redact_member(str(name), inner) for name, inner in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_redact_texts(inner) for inner in cast("Sequence[Any]", value)]
    return value


def _redact_member(name: str, value: Any) -> Any:
    return PLACEHOLDER if isinstance(value, str) and is_probable_secret(name, value) else _redact_texts(value)


def redact_registered(text: str) -> str:
    """Remove registered secrets from *text*; this is fast enough for each line that a server prints."""
    return _replace_values(text, _all_secrets)


def _longest_first(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=len, reverse=True))


def _replace_values(text: str, values: Iterable[str]) -> str:
    # Not a regular expression: `re` would compare alternatives with a common prefix one by one at each character.
    parts = [text]
    for value in values:
        if value in text:
            parts = [piece for part in parts for piece in part.split(value)]
    return PLACEHOLDER.join(parts)


def is_probable_secret(name: str, value: str) -> bool:
    """Return whether the value of a header or environment variable is probably a secret.

    A value that contains a reference such as `${env:NAME}` is not considered a secret, and neither is one that
    contains only an escaped reference, such as `Bearer ${$}{NAME}`.
    """
    value = literal_part(value)
    if not value or value.lower() in _SCHEMES:
        return False
    if len(value) >= MIN_SECRET_LENGTH and is_secret_name(name):
        return value.lower() not in _PLAIN_WORDS
    return redact_patterns(value) != value


def literal_part(value: str) -> str:
    """Return *value* without escaped references such as `${$}{NAME}`, or "" if it contains any other reference."""
    if "${" not in value:
        return value
    literal = _ESCAPED_REFERENCE.sub("", value).strip()
    return "" if "${" in literal else literal


def is_secret_name(name: str) -> bool:
    """Return whether a header or environment variable with this name usually holds a secret."""
    return _SECRET_NAME.fullmatch(name) is not None


class PrivateKeyFilter:
    """Filter for the lines of one output that removes private keys spread over several lines.

    The first line of a key is returned unchanged: `redact` removes the beginning of the key from it. The following
    lines are removed only while they look like part of a key, because many messages only mention the first line of
    a key.
    """

    def __init__(self) -> None:
        self._lines_left = 0
        self._words = 0
        """Number of words in the full line of the key that was the last line, 0 if there was none."""

    def apply(self, text: str) -> str:
        """Return *text*, the next lines of the output, without parts of a key that began on an earlier line."""
        lines = text.split("\n") if self._lines_left else []
        for number, line in enumerate(lines):
            if end := _KEY_END.search(line):
                lines[number] = f"{PLACEHOLDER}{line[end.end() :]}"
                self._lines_left = 0
            elif self._continues_key(line):
                lines[number] = PLACEHOLDER if line.strip() else line
            if not self._lines_left:
                break
        text = "\n".join(lines) if lines else text
        begins = list(_KEY_BEGIN.finditer(text))
        if begins and not _KEY_END.search(text, begins[-1].end()):
            self._lines_left, self._words = _MAX_KEY_LINES, 0
            _first, *following = text[begins[-1].end() :].split("\n", _MAX_KEY_LINES + 1)
            all(map(self._continues_key, following[:_MAX_KEY_LINES]))
        return text

    def _continues_key(self, line: str) -> bool:
        """Return whether *line* looks like the next line of a key; if not, the key is considered complete.

        A logger may have prefixed each line of the key. The line after a full line may be the key's last one, which can
        be short, so it is only required to have the same number of words.
        """
        from mcphost.private_key_lines import is_full_line, is_header  # few outputs contain a key

        words = len(line.split())
        is_full = is_full_line(line)
        if is_full or not words or words == self._words or is_header(line):
            self._words = words if is_full else 0
            self._lines_left -= 1
            return True
        self._lines_left = 0
        return False


def find_key_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the start and end of each API key in *text* that has a well-known prefix, such as `sk-`."""
    return tuple(match.span() for match in _API_KEY.finditer(text))


def redact_patterns(text: str) -> str:
    """Remove everything that looks like a secret from *text*."""
    for pattern, mark in _SECRET_PATTERNS:
        text = pattern.sub(mark, text)
    return _JWT.sub(_redact_jwt, _AMBIGUOUS_FLAG.sub(_redact_ambiguous_flag, text))


def _redact_ambiguous_flag(match: re.Match[str]) -> str:
    is_secret = _looks_like_key(match["value"], is_pat=match["name"].lower() == "pat")
    return f"{match['flag']}{PLACEHOLDER}" if is_secret else match[0]


def _looks_like_key(value: str, *, is_pat: bool) -> bool:
    """Return whether the value of an option such as `--key` looks like a secret, and not like a name.

    If a program does not know the option, the next word may be the name of a package that it runs, so names must
    stay readable. *is_pat* means that the option is for a personal access token.
    """
    if _NO_KEY.search(value.rstrip("=")):
        return False
    if _HEXADECIMAL.fullmatch(value) or (value.isalnum() and is_strong(value)):
        return True
    if is_pat and any(map(str.isdigit, value)):
        return True
    return any(
        len(word) >= _MIXED_LENGTH
        and any(map(str.isdigit, word)) and any(map(str.islower, word)) and any(map(str.isupper, word))
        for word in re.split(r"[^A-Za-z0-9]", value)
    )  # fmt: skip


def _redact_jwt(match: re.Match[str]) -> str:
    return PLACEHOLDER if match["rest"] else match[0]
