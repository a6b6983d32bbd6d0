"""Redaction of secrets before text is logged, stored in the audit log or displayed.

Two kinds of text are redacted: registered secrets, and text that matches patterns of secrets.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

PLACEHOLDER = "[secret]"
MIN_SECRET_LENGTH = 6  # shorter values would also match parts of ordinary words
STRONG_SECRET_LENGTH = 16
"""Minimum length at which a secret with both digits and letters is strong; see `is_strong`."""
_STRONG_LENGTH_OF_ANY = 32
_ESCAPED_REFERENCE = re.compile(r"\$\{\$\}(?:\{[^{}$]{0,200}\})?")
_SCHEMES = ("bearer", "basic", "token", "dpop", "apikey")
_MAX_RECEIVED = 200  # each log line of a server is searched for each value
_TEXT_LIMIT = 1_000_000

# A word of letters and digits, and its pieces: "get", "Report" and "2026", where "getReport" counts as one piece.
_WORD = re.compile(r"[A-Za-z0-9]+")
_PIECE = re.compile(r"[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*|[A-Z]+(?![a-z])|[0-9]+")
# Addresses of IPv6 and points in time look random.
_PREDICTABLE = re.compile(
    r"(?:[0-9A-Fa-f]{0,4}:){3,7}[0-9A-Fa-f]{0,4}|[0-9]{4}-?[0-9]{2}-?[0-9]{2}T[0-9]{2}:?[0-9]{2}(?::?[0-9]{2})?Z?"
)
_NEVER_IN_TOKENS = re.compile(r"[\s\"'\\{}<>\[\](),;]")
_MIN_CHANGES = 3
_MAX_CHARS_A_CHANGE = 8
_LONG_PIECE = 16
_VARIED = 8  # different characters of a long piece that looks random
_NO_HOST = re.compile(r"[^\w.:-]", re.ASCII)
_MAX_ISSUER = 100

_user_secrets: tuple[str, ...] = ()
"""Registered secrets of the user and of mcphost."""
_received_secrets: dict[str, str] = {}
"""Registered values chosen by servers, in order of arrival, with the issuer of each."""
_all_secrets: tuple[str, ...] = ()
"""All registered values, longest first, because one value can be a prefix of another."""

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
"""Maximum number of lines redacted after the first line of a private key without an end, as many as in a long key."""


class _SecretPattern(NamedTuple):
    """A regular expression for a kind of secret, with data to skip texts in which it cannot match.

    - `mark`: replaces each match.
    - `needs`: groups of words; a text can match only if, after `_fold`, it contains a word of every group.
    - `starts`: strings with which every match begins; the pattern is tried only where they occur. If empty, it is tried
      everywhere.
    """

    regex: re.Pattern[str]
    mark: str
    needs: tuple[tuple[str, ...], ...] = ()
    starts: tuple[str, ...] = ()
    min_length: int = 0
    """Minimum length of a text in which the pattern matches."""

    def may_match(self, folded: str) -> bool:
        """Return whether the pattern may match in a text; *folded* is the text as folded by `_fold`."""
        if len(folded) < self.min_length:
            return False
        for words in self.needs:
            for word in words:  # a loop: `any` would take half the time of a short text
                if word in folded:
                    break
            else:
                return False
        return True

    def replace(self, text: str, folded: str) -> str:
        """Return *text* with each match replaced by the mark; *folded* is *text* as folded by `_fold`."""
        if not self.starts or len(text) < _SHORT_LENGTH:
            return self.regex.sub(self.mark, text)
        parts: list[str] = []
        end = 0
        for start in _find_all(folded, self.starts):
            if start >= end and (match := self.regex.match(text, start)):
                parts += [text[end:start], match.expand(self.mark)]
                end = match.end()
        return "".join((*parts, text[end:])) if parts else text


def _find_all(text: str, words: Iterable[str]) -> list[int]:
    """Return the positions of all *words* in *text*, in order."""
    found: list[int] = []
    for word in words:
        position = text.find(word)
        while position >= 0:
            found.append(position)
            position = text.find(word, position + 1)
    return sorted(found)


def _fold(text: str) -> str:
    """Return *text* in lower case, with the same length, for comparison with the words of a pattern.

    Letters that match an ASCII letter in a case-insensitive pattern, such as the long s, are replaced by that letter.
    """
    if not text.isascii():  # these four letters match "s", "i" and "k", too
        text = text.replace("ſ", "s").replace("ı", "i").replace("İ", "i").replace("\N{KELVIN SIGN}", "k")
    return text.lower()


_SENSITIVE_STARTS = (
    "token", "secret", "passw", "passphrase", "pass-phrase", "pass_phrase", "apikey", "api-key", "api_key",
    "authorization", "credential", "privatekey", "private-key", "private_key", "accesskey", "access-key", "access_key",
    "accountkey", "account-key", "account_key",
)  # fmt: skip
"""The words that `_SENSITIVE_WORDS` matches, without their last letters if these vary."""
_SENSITIVE_HINTS = ("token", "secret", "pass", "key", "authorization", "credential")
_API_KEY_PREFIXES = (
    "sk-", "gho_", "ghp_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glrt-", "gldt-", "glcbt-",
    "glptt-", "glft-", "glagent-", "xox", "xapp-", "aiza", "ya29.", "akia", "asia", "hf_", "k_live_", "k_test_",
    "npm_", "tvly-", "sbp_", "gsk_", "xai-", "pplx-", "figd_", "ntn_", "lin_api_", "pypi-", "sg.", "hvs.", "dop_v1_",
    "shp", "dckr_", "atatt3", "age-secret-key-1", ":aa",
)  # fmt: skip
"""Prefixes, in lower case; every key that `_API_KEY` matches contains one of them."""
_SHORT_LENGTH = 500
"""Maximum length of a text in which it is faster to try a pattern everywhere than to look for its starts."""
_MIN_MATCH = 9
"""Minimum length of a text without "=" and "@" in which a pattern matches, such as `token":"x`."""
_SECRET_PATTERNS: tuple["_SecretPattern", ...] = (
    _SecretPattern(
        re.compile(rf"{_KEY_BEGIN.pattern}.*?(?:{_KEY_END.pattern}|\Z)", re.DOTALL),
        PLACEHOLDER,
        needs=(("-----begin",),),
    ),
    _SecretPattern(
        re.compile(r"(?i)\b(bearer|basic|dpop)(\s+)[\w.~+/=-]{8,}"),
        rf"\1\2{PLACEHOLDER}",
        needs=(("bearer", "basic", "dpop"),),
    ),
    # user:password@ in a URL, up to the last @ before the host. The user ends at "/", "?" and "#" (RFC 3986, section
    # 3.2). Many people write "?" and "#" in passwords, however; what stands before them is then no host with a port.
    _SecretPattern(
        re.compile(
            r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)(?:[^/?#\s\"'<>]{1,500}"
            r"|[^/?#\s@\"'<>:\[\]]{0,100}:(?!\d{0,100}[?#])[^/\s@\"'<>]{1,500})@"
        ),
        rf"\1{PLACEHOLDER}@",
        needs=(("://",), ("@",)),
    ),
    # the same if it cannot be told from a query; the host, which stands before the query, is kept
    _SecretPattern(
        re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://[^/?#\s@\"'<>]{1,300}[?#])[^/\s@\"'<>]{1,500}@"),
        rf"\1{PLACEHOLDER}@",
        needs=(("://",), ("@",), ("?", "#")),
    ),
    # ?token=…&code=… in a URL or a form body
    _SecretPattern(
        re.compile(
            r"(?i)([?&#;](?:[\w.-]{0,40}(?:token|secret|passw(?:or)?d|key|sig|signature|auth)|code|code_verifier|state"
            r"|assertion)=)[^&\s\"'<>#]+"
        ),
        rf"\1{PLACEHOLDER}",
        needs=(
            ("=",),
            ("?", "&", "#", ";"),
            ("token", "secret", "passw", "key", "sig", "auth", "code", "state", "assertion"),
        ),
    ),
    _SecretPattern(
        re.compile(r"(?i)(hooks\.slack\.com/services/)[\w/]{10,}"),
        rf"\1{PLACEHOLDER}",
        needs=(("hooks.slack.com/services/",),),
    ),
    # schemes of Authorization headers that are not among those above
    _SecretPattern(
        re.compile(
            r"(?i)(authorization(?:\\{0,4}[\"'])?\s{0,8}[=:]\s{0,8}(?:\\{0,4}[\"'])?"
            r"(?:token|key|api-?key|bot|negotiate|ntlm|sso-key|private-?token)[ \t]{1,8})[^\s\"',;]{8,}"
        ),
        rf"\1{PLACEHOLDER}",
        needs=(("authorization",),),
    ),
    # Cookie: name=value; name=value
    _SecretPattern(
        re.compile(
            r"(?i)(\b(?:set-)?cookie(?:\\{0,4}[\"'])?\s{0,8}[=:]\s{0,8}(?:\\{0,4}[\"'])?)"
            r"[^\s=;\"'\\]{1,100}=[^\"'\\\r\n]{4,}"
        ),
        rf"\1{PLACEHOLDER}",
        needs=(("cookie",), ("=",)),
    ),
    # "api_key": "…", API_KEY=…, Authorization: …
    _SecretPattern(
        re.compile(rf"(?i)({_SENSITIVE_NAMES}\"\s{{0,8}}:\s{{0,8}}\")(?:[^\"\\]|\\.)+"),
        rf"\1{PLACEHOLDER}",
        needs=(('"',), (":",)),
        starts=_SENSITIVE_STARTS,
    ),
    _SecretPattern(
        re.compile(
            rf"(?i)({_SENSITIVE_NAMES}\s{{0,8}}[=:]\s{{0,8}})(?!\[secret\]|bearer |basic |dpop |\d{{1,7}}\b)"
            r"[^\s\"',;&]{6,}"
        ),
        rf"\1{PLACEHOLDER}",
        needs=(("=", ":"),),
        starts=_SENSITIVE_STARTS,
    ),
    # the same in other quotes: 'api_key': '…', password='…', \"token\": \"…\"; names of variables are kept
    _SecretPattern(
        re.compile(
            rf"(?i)({_SENSITIVE_NAMES}(?:\\{{0,4}}[\"'])?\s{{0,8}}[=:]\s{{0,8}}(?P<quote>\\{{0,4}}[\"']))"
            r"(?!\[secret\]|\$\{|bearer |basic |dpop |\d{1,7}\b"
            rf"|{_PLACEHOLDER_WORD}(?P=quote))"
            r"(?:(?!(?P=quote))(?:\\.|[^\r\n])){6,}+"
        ),
        rf"\1{PLACEHOLDER}",
        needs=(("=", ":"), ('"', "'")),
        starts=_SENSITIVE_STARTS,
    ),
    _SecretPattern(_API_KEY, PLACEHOLDER, needs=(_API_KEY_PREFIXES,), min_length=len("xapp-") + 10),
    # --token …, --api-key "…", '--password', '…'
    _SecretPattern(
        re.compile(
            rf"(?i)({_SECRET_FLAG}(?P<quote>\\{{0,4}}[\"'])){_PLAIN_VALUE}"
            r"(?:(?!(?P=quote))(?:\\.|[^\r\n])){6,}+"
        ),
        rf"\1{PLACEHOLDER}",
        needs=(("-",), _SENSITIVE_HINTS),
        min_length=len("-token secret"),
    ),
    _SecretPattern(
        re.compile(rf"(?i)({_SECRET_FLAG}){_PLAIN_VALUE}[^\s\"',;\\]{{6,}}"),
        rf"\1{PLACEHOLDER}",
        needs=(("-",), _SENSITIVE_HINTS),
        min_length=len("-token secret"),
    ),
)
_OTHER_HINTS = ("@", "=", "eyj", "pat", "auth", "-----begin", "bearer", "basic", "dpop", "hooks.slack", "cookie")
_ANY_HINT = re.compile("|".join(map(re.escape, (*_OTHER_HINTS, *_SENSITIVE_HINTS, *_API_KEY_PREFIXES))))
"""Pattern that matches in every folded text that contains a secret; for a short text, this single search is fast."""
# --key, --deploy-key, --pat, --auth or --cookie with its value. Many programs use these names for other values, too.
_AMBIGUOUS_FLAG = re.compile(
    r"(?i)(?P<flag>(?<![\w-])--?(?:[\w-]{0,40}[_-])?(?P<name>key|pat|auth|cookie)(?:\\{0,4}[\"'])?"
    r"(?:\s{0,8}[,=]\s{0,8}|\s{1,8})(?:\\{0,4}[\"'])?)(?P<value>[^\s\"',;\\]{6,})"
)
_NO_KEY = re.compile(r"[/@*?$|&<>(){}\[\]`]|\.[A-Za-z][A-Za-z0-9]{0,4}\Z")
"""Pattern that matches in values that are not keys, such as URLs, paths, file names and `${…}` references."""
_HEXADECIMAL = re.compile(r"[0-9a-fA-F-]{32,}")
_MIXED_LENGTH = 12
# A JSON Web Token. A long word that is not a token is consumed, but kept: trying again at each "eyJ" inside it would
# take quadratic time.
_JWT = re.compile(r"\beyJ(?:[\w-]{8,}+(?P<rest>\.[\w-]{8,}+\.[\w-]*+)?)?")


PLAIN_WORDS = frozenset({"true", "false", "none", "null", "enabled", "disabled"})
"""Values that are not secrets even if their name suggests one: they only state whether a secret exists."""


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
    to hide that word everywhere. In the audit log, more text stays readable; see `redact_with_issuers`. At most 200
    values are kept. Beyond that, the oldest value from the *issuer* with the most values is dropped, so an issuer of
    short-lived tokens does not displace other issuers' tokens.
    """
    if is_strong(secret):
        _add_received(secret, issuer)


def register_project_secret(secret: str) -> None:
    """Register a value from a project's environment file for redaction, unless it could be an ordinary word.

    Unlike the tokens of a server, it may be a passphrase. It counts towards the limit of `register_server_secret`.
    """
    if is_strong(secret):
        _add_received(secret, "")


def _add_received(secret: str, issuer: str) -> None:
    global _all_secrets  # noqa: PLW0603 - one process, one set of secrets
    if secret not in _received_secrets:
        _received_secrets[secret] = issuer
        if len(_received_secrets) > _MAX_RECEIVED:
            ((largest, _),) = Counter(_received_secrets.values()).most_common(1)
            del _received_secrets[next(value for value, source in _received_secrets.items() if source == largest)]
        _all_secrets = _longest_first({*_user_secrets, *_received_secrets})


def is_strong(secret: str) -> bool:
    """Return whether a value is too long and varied to be an ordinary word.

    A strong value has at least 16 characters, including a letter and a digit, or at least 32 characters of any kind.
    """
    mixed = any(char.isdigit() for char in secret) and any(char.isalpha() for char in secret)
    return len(secret) >= (STRONG_SECRET_LENGTH if mixed else _STRONG_LENGTH_OF_ANY)


def is_unpredictable(secret: str) -> bool:
    """Return whether a value is strong (see `is_strong`) and looks random.

    Paths, addresses, dates, sentences and names are not random, and neither is text with quotes, spaces or brackets,
    which no token has (RFC 6750, section 2.1). Random text is recognized by how often letters and digits, or small and
    capital letters, alternate inside its words. Of random values of 22 characters, about one in forty does not pass;
    of those of 32 characters, one in a thousand. A known hash or UUID passes, because tokens look like that, too.
    """
    if not is_strong(secret) or _NEVER_IN_TOKENS.search(secret) is not None:
        return False
    changes = 0
    for word in _WORD.findall(_PREDICTABLE.sub("", secret)):
        pieces = _PIECE.findall(word)
        changes += len(pieces) - 1
        for piece in pieces:  # a token can consist of digits, or of letters of one case
            if (
                len(piece) >= _LONG_PIECE
                and len(set(piece)) >= _VARIED
                and piece[1:] in (piece[1:].lower(), piece.upper()[1:])
            ):
                changes += len(piece) // 4
    return changes >= max(_MIN_CHANGES, sum(map(str.isalnum, secret)) / _MAX_CHARS_A_CHANGE)


def redact(text: str) -> str:
    """Return *text* with secrets removed, truncated after a million characters. Never raises."""
    if len(text) > _TEXT_LIMIT:
        text = text[:_TEXT_LIMIT] + "…"
    return redact_patterns(redact_registered(text))


def redact_with_issuers(text: str) -> str:
    """Redact *text* for the audit log: say of each hidden token who issued it, its length and its digest.

    A server can issue as a token what it expects in an argument, to hide it. Therefore, a value that a server chose
    stays readable if it could be predicted (see `is_unpredictable`), such as a path. Whoever knows a value that was
    hidden, such as the id of a record, can compare its SHA-256, and sees which server chose to hide it.
    """
    if len(text) > _TEXT_LIMIT:
        text = text[:_TEXT_LIMIT] + "…"
    values = [value for value in _all_secrets if value in text and not _is_readable_in_audit(value)]
    return redact_patterns(_replace_values(text, values, _describe))


def _is_readable_in_audit(value: str) -> bool:
    return bool(_received_secrets.get(value)) and value not in _user_secrets and not is_unpredictable(value)


def _describe(value: str) -> str:
    issuer = _received_secrets.get(value, "")
    if not issuer or value in _user_secrets:
        return PLACEHOLDER
    # This must not end a string in JSON.
    host = _NO_HOST.sub("?", issuer.partition("://")[2].partition("/")[0] or issuer)[:_MAX_ISSUER]
    digest = hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16]
    return f"[secret from {host}, {len(value)} characters, sha256 {digest}]"


def redact_identifier(name: str) -> str:
    """Remove the user's strong secrets (see `is_strong`) from a name that is written to the audit log.

    Nothing else is removed, even if it looks like a secret or equals a token from a server. If tokens were removed, a
    server could hide a name in the audit log by issuing the name as a token. If a secret was removed, the digest of the
    name is appended (see `identifier_digest`), so that the name can still be identified.
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


def redact_registered(text: str) -> str:
    """Remove registered secrets from *text*; this is fast enough for each line that a server prints."""
    return _replace_values(text, _all_secrets)


def _longest_first(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(values, key=len, reverse=True))


def _replace_values(text: str, values: Iterable[str], describe: Callable[[str], str] = lambda _: PLACEHOLDER) -> str:
    # Not a regular expression: `re` would compare alternatives with a common prefix one by one at each character.
    spans: list[tuple[int, int, str]] = []
    covered = bytearray()
    for value in values:
        start = text.find(value)
        if start < 0:
            continue
        covered = covered or bytearray(len(text))
        mark = describe(value)
        while start >= 0:
            end = start + len(value)
            last = covered.rfind(1, start, end)
            if last < 0:
                covered[start:end] = b"\1" * len(value)
                spans.append((start, end, mark))
            start = text.find(value, end if last < 0 else last + 1)
    parts: list[str] = []
    position = 0
    for start, end, mark in sorted(spans):
        parts += [text[position:start], mark]
        position = end
    return "".join((*parts, text[position:]))


def is_probable_secret(name: str, value: str) -> bool:
    """Return whether the value of a header or environment variable is probably a secret.

    The result is False for a value that contains a reference such as `${env:NAME}`. An escaped reference such as
    `${$}{NAME}` is ignored: only the rest of the value is considered.
    """
    value = literal_part(value)
    if not value or value.lower() in _SCHEMES:
        return False
    if len(value) >= MIN_SECRET_LENGTH and is_secret_name(name):
        return value.lower() not in PLAIN_WORDS
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
    """Filter for one output, line by line, that removes private keys spread over several lines.

    The line in which a key begins is returned unchanged; `redact` removes the key from it. The following lines are
    removed only while they look like part of a key, because many messages only mention the first line of a key.
    """

    def __init__(self) -> None:
        self._lines_left = 0
        self._words = 0
        """Number of words in the previous line if it was a full line of a key, otherwise 0."""

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

        The last line of a key can be too short to be recognized, and a logger may begin each line with words such as
        the time. Therefore, a line that follows a line of full length and has as many words counts as part of the key.
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
    if len(text) < _MIN_MATCH and "=" not in text and "@" not in text:
        return text
    folded = _fold(text)
    if len(text) < _SHORT_LENGTH and _ANY_HINT.search(folded) is None:
        return text
    for pattern in _SECRET_PATTERNS:
        if pattern.may_match(folded):
            replaced = pattern.replace(text, folded)
            if replaced != text:
                text, folded = replaced, _fold(replaced)
    if "-" in folded and any(word in folded for word in ("key", "pat", "auth", "cookie")):
        text = _AMBIGUOUS_FLAG.sub(_redact_ambiguous_flag, text)
    return _JWT.sub(_redact_jwt, text) if "eyj" in folded else text


def _redact_ambiguous_flag(match: re.Match[str]) -> str:
    is_secret = _looks_like_key(match["value"], is_pat=match["name"].lower() == "pat")
    return f"{match['flag']}{PLACEHOLDER}" if is_secret else match[0]


def _looks_like_key(value: str, *, is_pat: bool) -> bool:
    """Return whether the value of an option such as `--key` looks like a secret, and not like a name.

    The word after `--key` may also be the name of a package to run, and package names must stay readable. *is_pat*
    means that the option is for a personal access token.
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
