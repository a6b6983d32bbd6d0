"""Digest of the server settings that the user approves; `approval_text` describes the same settings.

This module also loads a server's certificate file. A "project's server" is one from a project's `.mcp.json`,
which other people may have written.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mcphost.config.env_file import UNREADABLE, describe_env_file, with_env_file
from mcphost.config.json_files import read_bytes
from mcphost.config.oauth_settings import list_non_defaults
from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import ReferenceValue, resolve_target, target_values
from mcphost.errors import ConfigError
from mcphost.serialization import replace

if TYPE_CHECKING:
    import ssl


MAX_CA_FILE_BYTES = 4_000_000
"""Maximum size in bytes; all certificate authorities of an operating system together take 250 kB."""


def ca_file_digest(path: str) -> str:
    """Return the SHA-256 (hex) of a certificate file. Raises ConfigError if it is unreadable or too large."""
    return hashlib.sha256(_read_ca_file(path)).hexdigest()


def with_file_digests(server: ServerConfig) -> ServerConfig:
    """Return *server* with digests of the files that its approval covers.

    These are the environment file and, for a project's server, the certificate file. A connection with the returned
    server fails if one of these files has changed since its digest was computed. Raises ConfigError if a file is
    missing, unreadable or too large.
    """
    server = with_env_file(server)
    if server.source != "project" or not server.ca_file or server.ca_digest:
        return server
    return replace(server, ca_digest=ca_file_digest(server.ca_file))


def load_authorities(context: "ssl.SSLContext", path: str, digest: str = "") -> None:
    """Make *context* trust the certificate authorities in the file at *path*.

    Unless *digest* is empty, it is the SHA-256 (hex) that the content must have. The file is read only once, so the
    certificates that are loaded are those that were checked. Raises ConfigError if the file is unreadable or has
    another digest, and ssl.SSLError or ValueError if it contains no valid certificates.
    """
    content = _read_ca_file(path)
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise ConfigError("it has changed since it was approved", "Restart the server to approve its current content.")
    # Comments between certificates may have any characters; OpenSSL accepts only ASCII text.
    context.load_verify_locations(cadata=content.decode("ascii", "ignore"))


def _read_ca_file(path: str) -> bytes:
    try:
        return read_bytes(Path(path), MAX_CA_FILE_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(f"The certificate file {path!r} does not exist.", 'Correct "caFile" in mcp.json.') from error


_DIGEST_VERSION = 2  # increased when other settings are covered, so that no approval covers more than was shown


def server_digest(server: ServerConfig) -> str:
    """Return the SHA-256 (hex) of all settings that determine which program or URL a server uses.

    The digest covers the command, its arguments and working directory, the URL, the trusted certificates, all
    environment variables and headers with their values, the environment file with its content, and the sign-in
    settings. References (`${env:NAME}`) are not expanded. The server's name is not covered, because it grants
    no permissions.

    For a project's server, the digest also covers the values of references in the command, arguments, directory,
    URL and risky variables (see `risky_variables`), the content of the certificate file, and the restrictions
    (required reviews of results, disabled tools, rules that forbid calls). Secrets are covered by fingerprints that
    are slow to compute.

    For any other server, only the masked form of a secret is covered, so that a renewed token needs no new
    approval. Values written by the publisher of an installed server are never masked.
    """
    facts: dict[str, object] = {"form": _DIGEST_VERSION}
    sharing = count_hidden(server)
    if server.is_stdio:
        facts |= {"command": server.command, "args": list(server.args), "cwd": server.cwd or os.getcwd()}
        facts["env"] = {
            name: _bound_value(server, name, text, sharing, section="env") for name, text in server.env.items()
        }
        if server.env_file:
            facts["env_file"] = [server.env_file, *describe_env_file(server)]
        if server.startup_folder:
            facts["started_in"] = server.startup_folder
    else:
        headers = sorted((name.lower(), name, text) for name, text in server.headers.items())
        facts |= {"url": server.url, "ca_file": server.ca_file}
        facts["headers"] = [
            [lower, _bound_value(server, name, text, sharing, section="headers")] for lower, name, text in headers
        ]
        facts["oauth"] = {
            key: _bound_value(server, key, text, sharing, is_secret=hides)
            for key, text, hides in list_non_defaults(server.oauth)
        }
    if server.source == "project":
        facts |= _restriction_facts(server)
        if values := target_values(server):
            facts["references"] = {value.text: _bound_reference(value, len(values)) for value in values}
        if server.cwd_has_references:
            facts["folder"] = resolve_target(server).cwd
        if server.ca_file:
            facts["ca_content"] = ca_content_digest(server)
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


ShownValues = Mapping[tuple[str, str], str]
"""Texts to show for variables and headers, keyed by section ("env" or "headers") and name."""
ONLY_MASKED: ShownValues = MappingProxyType({})
"""No texts to show, so that each value is masked by the rules for its server."""


def _bound_reference(value: ReferenceValue, count: int) -> list[str]:
    if value.value is None:
        return ["missing"]
    from mcphost.config.secret_masking import fingerprint, mask_secrets

    if mask_secrets(value.name, value.value) == value.value:
        return ["value", value.value]
    return ["fingerprint", fingerprint(value.name, value.value, count)]


def _restriction_facts(server: ServerConfig) -> dict[str, object]:
    """Return the restrictions that are set for a server, keyed by name.

    Restrictions that are not set are omitted, so that the digest of an unrestricted server does not depend on them.
    """
    restrictions = {
        "review": server.review_results,
        "disabled": list(server.disabled_tools),
        "never": list(server.never_rules),
    }
    return {name: value for name, value in restrictions.items() if value}


def ca_content_digest(server: ServerConfig) -> str:
    """Return the SHA-256 (hex) of the certificate file, or the constant `UNREADABLE` if it cannot be read."""
    try:
        return server.ca_digest or ca_file_digest(server.ca_file)
    except ConfigError:
        return UNREADABLE


def mask_value(server: ServerConfig, name: str, text: str, is_secret: bool, *, section: str = "") -> str:
    """Return *text*, the value of the setting *name*, with secrets masked.

    If *is_secret* is set, everything except `${…}` references is masked; otherwise, only probable secrets are.
    *section* is "env" for an environment variable, "headers" for a header, and "" for any other setting. A
    variable or header is not masked if it still has the value that the server's publisher wrote.
    """
    if section and server.published.has(section, name, text):
        return text
    from mcphost.config.secret_masking import HIDDEN, REFERENCE, mask_secrets  # loaded with the first value

    if is_secret:
        return "".join(part if REFERENCE.fullmatch(part) else HIDDEN for part in REFERENCE.split(text) if part)
    return mask_secrets(name, text, is_foreign=server.is_stdio and server.source in ("project", "flag"))


def count_hidden(server: ServerConfig) -> int:
    """Return the number of variables, headers and sign-in settings that are fully or partly masked."""
    count = sum(mask_value(server, name, text, hides) != text for name, text, hides in list_non_defaults(server.oauth))
    for section, pairs in (("env", server.env), ("headers", server.headers)):
        count += sum(mask_value(server, name, text, False, section=section) != text for name, text in pairs.items())
    return count


def _bound_value(
    server: ServerConfig, name: str, text: str, hidden_count: int, *, section: str = "", is_secret: bool = False
) -> list[str]:
    """Return the form in which a setting's value is included in the approval digest: a kind and a text.

    The kind and the text are one of these:

    - "value" and the plain value, if nothing in it is masked
    - "fingerprint" and a digest of the value, if any of it is masked and the server is a project's
    - "hidden" and the masked value, if any of it is masked and the server is not a project's

    *hidden_count* is the result of `count_hidden`. For the other parameters, see `mask_value`.
    """
    seen = mask_value(server, name, text, is_secret, section=section)
    if seen == text:
        return ["value", text]
    if server.source != "project":
        return ["hidden", seen]
    from mcphost.config.secret_masking import fingerprint

    return ["fingerprint", fingerprint(name, text, hidden_count)]


def has_settings_of(server: ServerConfig, planned: ServerConfig) -> bool:
    """Return whether *server* has the same program or URL, environment, headers and sign-in settings as *planned*.

    *server* was loaded from the configuration files. Other settings, such as restrictions, are not compared, because
    they can come from another file than the server's entry.
    """
    fields = ("command", "args", "cwd", "env", "env_file", "startup_folder", "url", "transport", "headers", "oauth",
              "ca_file")  # fmt: skip
    return all(getattr(server, field) == getattr(planned, field) for field in fields)
