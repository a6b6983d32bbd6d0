"""Configured HTTP headers for requests to model providers; header values may contain references to secrets."""

import re
from collections.abc import Mapping

from mcphost.config.variable_references import ReferenceExpander, find_references
from mcphost.errors import ConfigError, ModelError
from mcphost.llm.providers import KeyLookup
from mcphost.redact import is_probable_secret, register_secret

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}")
"""A field name of RFC 9110, section 5.1."""

_FORBIDDEN = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type", "upgrade"})


async def expand_headers(
    headers: Mapping[str, str], environ: Mapping[str, str], keyring: KeyLookup | None
) -> dict[str, str]:
    """Return the headers with `${env:NAME}` and `${keyring:NAME}` expanded.

    Secrets are registered for redaction. Raises ModelError if a variable or keyring entry is missing, or if HTTP does
    not allow the name or value of a header.
    """
    expanded: dict[str, str] = {}
    for name, text in headers.items():
        where = f'The setting "headers.{name}" of the model'
        if not _NAME.fullmatch(name) or name.lower() in _FORBIDDEN:
            raise ModelError(f"{where} is not a header that can be set.", "Remove it from config.toml.")
        entries = await _read_keyring(text, keyring)
        try:
            value = ReferenceExpander(environ, entries.get).expand(text, where)
        except ConfigError as error:
            raise ModelError(error.message, error.hint, model_kind="auth") from error
        if not value.isascii() or any(ord(char) < 32 or ord(char) == 127 for char in value):
            raise ModelError(f"{where} has a character that HTTP does not allow.", "Store the value without it.")
        if find_references(text) or is_probable_secret(name, value):
            register_secret(value)
            register_secret(value.partition(" ")[2])
        expanded[name] = value
    return expanded


async def _read_keyring(text: str, keyring: KeyLookup | None) -> dict[str, str]:
    """Return the secrets for the keyring references in *text*, keyed by name; missing entries are omitted."""
    entries: dict[str, str] = {}
    for reference in find_references(text):
        if reference.kind == "keyring" and keyring is not None and (value := await keyring(reference.name)) is not None:
            entries[reference.name] = value
    return entries
