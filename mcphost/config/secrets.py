"""Secrets in a server's entry: expansion of references, masking, and moving secrets to the keyring."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast

from mcphost.config.env_file import is_project_file
from mcphost.config.oauth_settings import FIELD_BY_KEY, SECRET_FIELDS
from mcphost.config.schema import OAuthConfig, ServerConfig
from mcphost.config.target_secrets import find_secret_places, find_target_secrets
from mcphost.config.variable_references import (
    SECRET_ENDINGS,
    Lookup,
    ReferenceExpander,
    entry_location,
    find_references,
    register_setting,
    target_texts,
)
from mcphost.errors import ConfigError
from mcphost.redact import is_probable_secret, is_strong, literal_part, register_project_secret, register_secret
from mcphost.serialization import Struct, replace

_SCHEME = re.compile(r"(?i)((?:bearer|basic|token|dpop|apikey) +)(\S.*)", re.DOTALL)

_NAME_PART = r"(?:[0-9]{0,2}[A-Za-z]+[0-9]{0,2}|[0-9]+)"
_SHORT_NAME = rf"(?=.{{1,20}}\Z)(?!(?:[^0-9]*[0-9]){{5}}){_NAME_PART}(?:[-_.:,+]{_NAME_PART})+\Z"
"""Matches several words and up to four digits, such as us-east-1, gpt-4o-mini and localhost:8080."""
_MEDIA_TYPE = r"(?:application|audio|font|image|model|multipart|text|video)/"
_ORDINARY_VALUE = re.compile(rf"\s|://|^[/~]|^[^0-9]{{0,31}}\Z|^{_SHORT_NAME}|^{_MEDIA_TYPE}")
"""Several words, an address, a path, a short value without digits, a name or a media type, which must stay readable in
errors and logs."""
_NUMBERED_ARGUMENT = re.compile(r"argument-[0-9]+")
_NUMBER, _ARGUMENT_NUMBER = re.compile(r"(?:-[0-9]+)?"), re.compile(r"[0-9]+(?:-[0-9]+)?")
"""What may follow the name of a setting in the name of a keyring entry."""


class PlaintextSecret(Struct, frozen=True):
    """A plaintext secret in a server's entry.

    `keys` is the path of the value in the entry, `value` the entire value, and `secret` the secret part of the value.
    """

    keys: tuple[str, ...]
    value: str
    prefix: str
    """Text before the secret, such as `Bearer `, that stays in the file, as does text after the secret."""

    secret: str
    label: str = ""
    """The name of the option or parameter that has the secret; "" if the last of `keys` is such a name."""

    def __repr__(self) -> str:
        return f"PlaintextSecret({self.location!r})"

    @property
    def expanded(self) -> str:
        """The secret as the server receives it, and as it is stored in the keyring.

        It differs from `secret` if the file contains a dollar sign written as `${$}`.
        """
        return self.secret.replace("${$}", "$")

    @property
    def location(self) -> str:
        """The path of the value in the entry, such as `env.API_KEY` or `args[2]`."""
        return f"args[{self.keys[1]}]" if self.keys[0] == "args" else ".".join(self.keys)

    def with_reference(self, text: str, name: str) -> str:
        """Return the value *text* with `${keyring:NAME}` instead of the secret.

        If a value has several secrets, replace the last one first, because a replacement moves the text after it.
        """
        start = len(self.prefix)
        return f"{text[:start]}${{keyring:{name}}}{text[start + len(self.secret) :]}"


def replace_secret(entry: dict[str, Any], secret: PlaintextSecret, reference: str) -> dict[str, Any]:
    """Return a copy of an entry in which a reference `${keyring:NAME}` replaces a secret; see `PlaintextSecret`."""
    copy = dict(entry)
    if secret.keys[0] == "args":
        at, args = int(secret.keys[1]), list(entry["args"])
        args[at] = secret.with_reference(str(args[at]), reference)
        return {**copy, "args": args}
    *parents, last = secret.keys
    place = copy
    for key in parents:
        place[key] = dict(place[key])
        place = place[key]
    place[last] = secret.with_reference(str(place[last]), reference)
    return copy


KnownSecrets = Mapping[tuple[str, str], tuple[PlaintextSecret, ...]]
"""The secrets in variables and headers whose origin is known, keyed by place, such as `("env", "API_KEY")`."""

NOTHING_KNOWN: KnownSecrets = MappingProxyType({})


def find_plaintext_secrets(server: ServerConfig, known: KnownSecrets = NOTHING_KNOWN) -> tuple[PlaintextSecret, ...]:
    """Find the probable plaintext secrets in a server's entry; in a value with several secrets, the last comes first.

    The environment, headers, sign-in settings, arguments and URL are searched. Values written by the publisher of
    an installed server are not reported.

    *known* contains the secrets in variables and headers that have already been searched, keyed by ("env", NAME) or
    ("headers", NAME). These secrets are returned without searching the values again. If *known* is passed, the
    arguments and the URL are not searched.
    """
    pairs = [(("env", name), value) for name, value in server.env.items()]
    pairs += [(("headers", name), value) for name, value in server.headers.items()]
    secrets: list[PlaintextSecret] = []
    for keys, value in pairs:
        if keys in known:
            secrets += known[keys]
        elif is_probable_secret(keys[1], value) and not server.published.has(*keys, value):
            secrets.append(make_secret(keys, value))
    for key, field in FIELD_BY_KEY.items():
        if field in SECRET_FIELDS and literal_part(value := cast("str", getattr(server.oauth, field))):
            secrets.append(make_secret(("mcphost", "oauth", key), value))
    for span in find_target_secrets(server) if known is NOTHING_KNOWN else ():
        secrets.append(PlaintextSecret(span.keys, span.text, span.text[: span.start], span.value, span.label))
    return tuple(secrets)


def keyring_entry_name(server: str, plaintext: PlaintextSecret) -> str:
    """Return a keyring entry name for a secret, built from the names of the server and the setting."""
    label = plaintext.label or plaintext.keys[-1]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{server}-{label}").strip("-").lower()[:80]
    return plain if plain and not plain.startswith("sign-in") else f"server-{plain}"


def find_own_secrets(server: ServerConfig, others: Iterable[ServerConfig]) -> tuple[str, ...]:
    """Return the keyring entries that mcphost created for a server and that no other server refers to.

    Entries for the server's password inputs are included, even if no value is stored.
    """
    any_secret = PlaintextSecret(keys=("env", "x"), value="", prefix="", secret="")
    prefix = keyring_entry_name(server.name, any_secret).removesuffix("x")
    used = {name for other in others for name in _list_keyring_names(other)}
    names = (name for name in _list_keyring_names(server) if name.startswith(prefix) and name not in used)
    return (*names, *(one.keyring_entry for one in server.inputs if one.keyring_entry))


def find_moved_secrets(server: ServerConfig) -> tuple[str, ...]:
    """Return the keyring entries that mcphost created when it moved secrets out of this server's entry."""
    pairs = [*server.env.items(), *server.headers.items()]
    pairs += [(key, str(getattr(server.oauth, field))) for key, field in FIELD_BY_KEY.items() if field in SECRET_FIELDS]
    pairs += [(place.label, place.value) for place in find_secret_places(server)]
    names: list[str] = []
    for key, text in pairs:
        base = keyring_entry_name(server.name, PlaintextSecret(keys=("env", key), value="", prefix="", secret=""))
        stem, rest = base, _NUMBER
        if _NUMBERED_ARGUMENT.fullmatch(key):  # its number changes if another one is added or removed
            stem, rest = base.rstrip("0123456789"), _ARGUMENT_NUMBER
        references = (one.name for one in find_references(text) if one.kind == "keyring")
        names += [name for name in references if name.startswith(stem) and rest.fullmatch(name, len(stem))]
    return tuple(dict.fromkeys(names))


def _list_keyring_names(server: ServerConfig) -> tuple[str, ...]:
    oauth = (str(getattr(server.oauth, field)) for field in SECRET_FIELDS)
    texts = (*server.env.values(), *server.headers.values(), *oauth, *server.args, server.url)
    found = (reference for text in texts for reference in find_references(text))
    return tuple(dict.fromkeys(reference.name for reference in found if reference.kind == "keyring"))


def replace_in_config(server: ServerConfig, plaintext: PlaintextSecret, name: str) -> ServerConfig:
    """Return a copy of the server with the plaintext secret replaced by `${keyring:NAME}`."""
    new = plaintext.with_reference(plaintext.value, name)
    match plaintext.keys:
        case ("env", key):
            return replace(server, env={**server.env, key: new})
        case ("headers", key):
            return replace(server, headers={**server.headers, key: new})
        case ("args", number):
            return replace(server, args=(*server.args[: int(number)], new, *server.args[int(number) + 1 :]))
        case ("url",):
            return replace(server, url=new)
        case (*_, key):
            return replace(server, oauth=replace(server.oauth, **{FIELD_BY_KEY[key]: new}))
        case _:
            raise AssertionError(plaintext.keys)


def replace_in_text(text: str, file: str, entry: tuple[str, ...], plaintext: PlaintextSecret, name: str) -> str:
    """Return the text of a configuration file with one secret replaced by `${keyring:NAME}`.

    *entry* is the path of keys to the server's entry. Nothing else is changed. Raises ConfigError if the file no longer
    contains the secret, or if the edit would change another value.
    """
    new = plaintext.with_reference(plaintext.value, name)
    from mcphost.config.json_edits import replace_value  # only needed to move secrets

    return replace_value(text, file, (*entry, *plaintext.keys), plaintext.value, new)


def make_secret(keys: tuple[str, ...], value: str, start: int = 0, end: int | None = None) -> PlaintextSecret:
    """Return a PlaintextSecret for the part of *value* from *start* to *end*.

    *keys* is the path of the value in the entry. A scheme such as `Bearer ` at the start of a header's value is not
    part of the secret.
    """
    # The scheme is not secret, and the file is easier to read with it.
    if keys[0] == "headers" and start == 0 and (match := _SCHEME.fullmatch(value[:end])):
        start = len(match[1])
    return PlaintextSecret(keys, value, value[:start], value[start:end])


def expand_server(
    server: ServerConfig, environ: Mapping[str, str], keyring: Lookup, from_file: Mapping[str, str] | None = None
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the expanded environment and headers of a server; secrets are registered for redaction.

    *from_file* contains the variables of the environment file; the variables of the server's entry override them.
    Raises ConfigError if a variable or keyring entry is missing, or if a header value contains a line break or NUL.
    """
    at = entry_location(server)
    expander = ReferenceExpander(environ, keyring, server=server)
    env = dict(from_file or {})
    env |= {name: expander.expand(text, f'{at}: "env.{name}"') for name, text in server.env.items()}
    headers = {name: expander.expand(text, f'{at}: "headers.{name}"') for name, text in server.headers.items()}
    for name, text in env.items():
        is_in_file = from_file is not None and name in from_file and name.upper().endswith(SECRET_ENDINGS)
        if not is_in_file and not is_probable_secret(name, text):
            continue
        if name in server.env:
            register_setting(server, server.env[name], text, environ)
        elif is_project_file(server, environ):
            _register_project_value(text)
        else:
            register_secret(text)
    for name, text in headers.items():
        from mcphost.header_mask import list_distinctive  # not needed to start servers without headers

        if is_probable_secret(name, text) or find_references(server.headers[name]):
            register_setting(server, server.headers[name], text, environ)
        for value in list_distinctive(name, text):  # it may be a secret whatever the header's name is
            if _ORDINARY_VALUE.search(value) is None:
                register_setting(server, server.headers[name], value, environ)
    for name, text in headers.items():
        if any(char in text for char in "\r\n\0"):
            raise ConfigError(f'{at}: the value of "headers.{name}" has a line break.', "Store it without one.")
        if name.lower() in {"authorization", "cookie", "x-api-key"}:
            register_setting(server, server.headers[name], text.partition(" ")[2] or text, environ)
    return env, headers


def _register_project_value(value: str) -> None:
    """Register a value from a project's environment file for redaction, if it looks like a secret.

    The file may contain the user's own secrets, so even a short value is registered if it has letters and digits.
    Ordinary words are not registered: the project's author may have written the file, and could put words into it
    that would then be hidden in the audit log.
    """
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if has_both and not is_strong(value):
        register_secret(value)
    else:
        register_project_secret(value)


def expand_oauth(server: ServerConfig, environ: Mapping[str, str], keyring: Lookup) -> OAuthConfig:
    """Return the sign-in settings of a server with references expanded; secrets are registered for redaction.

    Raises ConfigError if a variable or keyring entry is missing.
    """
    at = entry_location(server)
    expander = ReferenceExpander(environ, keyring, server=server)
    expanded: dict[str, str] = {}
    for field in SECRET_FIELDS:
        text: str = getattr(server.oauth, field)
        if text:
            expanded[field] = expander.expand(text, f'{at}: "mcphost.oauth" ({field})')
            register_setting(server, text, expanded[field], environ)
    return replace(server.oauth, **expanded) if expanded else server.oauth


_KEY_BY_FIELD = {field: key for key, field in FIELD_BY_KEY.items()}


def list_references(server: ServerConfig) -> tuple[tuple[str, str], ...]:
    """Return the references in a server's entry as tuples, such as ("header X", "${env:TOKEN}").

    The first item of each tuple is the setting that contains the reference. If secret sign-in settings contain
    references, tuples with the URLs in `issuer` and `idpTokenEndpoint` follow, because the secrets are sent to these
    URLs.
    """
    texts = [(place, text) for place, _, text in target_texts(server)]
    texts += [(f"environment {name}", text) for name, text in sorted(server.env.items())]
    texts += [(f"header {name}", text) for name, text in sorted(server.headers.items())]
    texts += [(f"sign-in {_KEY_BY_FIELD[field]}", str(getattr(server.oauth, field))) for field in SECRET_FIELDS]
    references = [
        (place, reference.short_text)
        for place, text in texts
        for reference in find_references(text)
        if reference.kind not in ("unknown", "dollar")
    ]
    if any(place.startswith("sign-in ") for place, _ in references):
        addresses = ("issuer", server.oauth.issuer), ("idpTokenEndpoint", server.oauth.idp_token_endpoint)
        references += [(f"sign-in {key}", address) for key, address in addresses if address]
    return tuple(dict.fromkeys(references))
