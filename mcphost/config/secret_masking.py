"""Masking of probable secrets in a server's entry, and digests of the masked values."""

import hashlib
import re
from collections import Counter
from functools import lru_cache
from math import log2

from mcphost.config.risky_variables import classify_variable
from mcphost.redact import PLACEHOLDER, is_secret_name, redact_patterns

HIDDEN = "[hidden]"
REFERENCE = re.compile(
    r"(\$\{(?:(?:keyring|input):[^}$]{0,200}+\}|env:[^}:$]{0,200}+\}|[A-Za-z_][A-Za-z0-9_]{0,199}+\}"
    r"|(?:env:)?[A-Za-z_][A-Za-z0-9_]{0,199}+:-))"
)
"""Matches a reference, which is never masked, up to its default, which may be a secret."""
_AUTH_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic|token|dpop|apikey)\s+")
_PATH_OR_URL = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z][A-Za-z0-9+.-]{1,20}://")
_LONG_WORD = re.compile(r"[A-Za-z0-9+=_-]{20,}")
_HEX = re.compile(r"[0-9a-fA-F-]{32,}")
_URL_CREDENTIALS = re.compile(r"(?<=://)[A-Za-z0-9._~%+!*-]{1,200}:[A-Za-z0-9._~%+!*:-]{1,200}(?=@)")
_CODE_CHARACTERS = frozenset(";|&$()<>`/\\")
_MAX_WORD_LENGTH = 4_096
_PBKDF2_ITERATIONS = 5_000
_FULL_COST_VALUES = 16


@lru_cache(1_024)
def mask_secrets(name: str, value: str, *, is_foreign: bool = False) -> str:
    """Return *value* with each probable secret replaced by `[hidden]`; references are not masked.

    *name* is the name of the variable, header or option that has the value, or "" if there is none. A variable that
    determines which code or settings a program loads is not masked, because the user must see its value. In a
    variable that determines where packages come from or where connections go, words are not masked merely because
    they look random.

    *is_foreign* means that the user did not write the value, for example because the entry was pasted. In such a
    value, if it may be code, only the credentials in URLs are masked.
    """
    risk = classify_variable(name)
    # Every second part is a reference; the others are literal text.
    parts = REFERENCE.split(value)
    literal = "".join(parts[0::2])
    if risk in ("code", "settings"):
        return value
    if is_foreign and _can_be_code(literal):
        return "".join(hide_url_credentials(part) if at % 2 == 0 else part for at, part in enumerate(parts))
    whole = is_secret_name(name) and not _is_no_secret(name, literal)

    def hide(part: str) -> str:
        return _hide_secret(part) if whole else _hide_patterns(part, hide_random_words=risk is None)

    for at in range(0, len(parts), 2):
        if at and parts[at - 1].endswith(":-"):  # the default and the text after the reference
            default, brace, rest = parts[at].partition("}")
            parts[at] = f"{hide(default)}{brace}{hide(rest)}"
        else:
            parts[at] = hide(parts[at])
    return "".join(parts)


def hide_url_credentials(text: str) -> str:
    """Return *text* with the user information of each URL that has a password replaced by `[hidden]`."""
    return _URL_CREDENTIALS.sub(HIDDEN, text)


def _can_be_code(literal: str) -> bool:
    """Return whether text contains characters that are common in commands and paths but rare in secrets."""
    scheme = _AUTH_SCHEME.match(literal)
    word = literal[scheme.end() if scheme else 0 :]
    return any(char in _CODE_CHARACTERS or char.isspace() for char in word)


def fingerprint(name: str, value: str, hidden_count: int = 1) -> str:
    """Return a digest (PBKDF2, 64 hex digits) of a masked value.

    The digest is slow to compute, which makes it hard to guess the value. *hidden_count* is the number of masked
    values in the server's entry. If there are more than 16, fewer iterations are used per value, so that an entry
    with thousands of them does not block the program.
    """
    return _derive_fingerprint(
        name, value, max(1, _PBKDF2_ITERATIONS * _FULL_COST_VALUES // max(_FULL_COST_VALUES, hidden_count))
    )


@lru_cache(1_024)
def _derive_fingerprint(name: str, value: str, iterations: int) -> str:
    salt = f"mcphost approval {name}".encode(errors="surrogatepass")
    return hashlib.pbkdf2_hmac("sha256", value.encode(errors="surrogatepass"), salt, iterations).hex()


def _is_no_secret(name: str, literal: str) -> bool:
    """Return whether a value is harmless although its name suggests a secret.

    Booleans, counts, paths and URLs are harmless.
    """
    text = literal.strip()
    if text.lower() in {"", "true", "false", "none", "enabled", "disabled", "0", "1"}:
        return True
    if text.isdigit() and "TOKENS" in name.upper():
        return True
    return bool(_PATH_OR_URL.match(text)) and not any(_is_random(part, 16) for part in re.split(r"[/?&=#:@.]", text))


def _hide_secret(literal: str) -> str:
    scheme = _AUTH_SCHEME.match(literal)
    start = scheme.end() if scheme else 0
    return f"{literal[:start]}{HIDDEN}" if literal[start:].strip() else literal


def _hide_patterns(literal: str, *, hide_random_words: bool) -> str:
    """Mask text that matches a known pattern of secrets and, if *hide_random_words* is set, words that look random."""
    known = redact_patterns(literal) if len(literal) < 1_000_000 else HIDDEN
    if known != literal:
        known = known.replace(PLACEHOLDER, HIDDEN)
    if not hide_random_words:
        return known
    return _LONG_WORD.sub(lambda match: HIDDEN if _is_random(match.group(), 20) else match.group(), known)


def _is_random(text: str, min_length: int) -> bool:
    """Return whether a word of at least *min_length* characters looks random.

    A word looks random if it is hexadecimal or extremely long, or if it has at least two digits and high entropy.
    """
    if len(text) < min_length:
        return False
    if len(text) > _MAX_WORD_LENGTH or _HEX.fullmatch(text):
        return True
    digits = sum(char.isdigit() for char in text)
    if digits < 2 or digits == len(text):
        return False
    count = Counter(text)
    entropy = -sum(times / len(text) * log2(times / len(text)) for times in count.values())
    mixed = text.lower() != text and text.upper() != text
    return entropy >= (3.5 if mixed else 3.3) and (mixed or digits / len(text) >= 0.2)
