"""Recognition of model providers' API keys by their format, without asking the provider."""

KEY_PREFIXES: tuple[tuple[str, str], ...] = (
    ("sk-ant-", "anthropic"),
    ("sk-proj-", "openai"),
    ("sk-svcacct-", "openai"),
    ("AIza", "gemini"),
    ("gsk_", "groq"),
    ("xai-", "xai"),
    ("csk-", "cerebras"),
    ("sk-or-", "openrouter"),
)
"""Prefixes of API keys that identify a provider; prefixes that several providers share are not listed."""

_ANY_PREFIX = ("sk-", *(prefix for prefix, _ in KEY_PREFIXES))
_MIN_KEY_LENGTH = 20
_PUNCTUATION = str.maketrans("-_.", "aaa")


def recognize_provider(key: str) -> str:
    """Return the provider whose API keys have the same prefix as *key*, or "" if the prefix is unknown."""
    return next((provider for prefix, provider in KEY_PREFIXES if key.startswith(prefix)), "")


def is_long_word(text: str) -> bool:
    """Return whether *text* is one long word that contains a digit, like every provider's API keys."""
    return len(text) >= _MIN_KEY_LENGTH and _is_word(text) and any(char.isdigit() for char in text)


def has_api_key_prefix(text: str) -> bool:
    """Return whether *text* is one word that begins with a known API key prefix."""
    return text.startswith(_ANY_PREFIX) and _is_word(text)


def is_api_key(text: str) -> bool:
    """Return whether *text* is a complete API key and nothing else: one long word with a known prefix."""
    text = text.strip()
    return len(text) >= _MIN_KEY_LENGTH and has_api_key_prefix(text)


def may_become_api_key(text: str) -> bool:
    """Return whether *text* may be the beginning of an API key that is still being entered."""
    return has_api_key_prefix(text) or any(prefix.startswith(text) for prefix in _ANY_PREFIX)


def _is_word(text: str) -> bool:
    return text.isascii() and text.translate(_PUNCTUATION).isalnum()
