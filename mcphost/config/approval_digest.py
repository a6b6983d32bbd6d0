"""Digest and readable description of the server settings that the user approves.

This module also loads a server's certificate file. A "project's server" is one from a project's `.mcp.json`,
which other people may have written.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from mcphost.config.env_file import UNREADABLE, describe_env_file, with_env_file
from mcphost.config.json_files import read_bytes
from mcphost.config.oauth_settings import list_non_defaults
from mcphost.config.schema import ServerConfig
from mcphost.config.secret_masking import HIDDEN, REFERENCE, fingerprint, mask_secrets
from mcphost.config.secrets import list_references
from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.config.variable_references import ReferenceValue, resolve_target, target_values
from mcphost.errors import ConfigError
from mcphost.sanitize import mark_unusual_spaces, sanitize
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

    These are the environment file and, for a project's server, the certificate file. Connecting with the returned
    server fails if one of these files has changed in the meantime. Raises ConfigError if a file is missing,
    unreadable or too large.
    """
    server = with_env_file(server)
    if server.source != "project" or not server.ca_file or server.ca_digest:
        return server
    return replace(server, ca_digest=ca_file_digest(server.ca_file))


def load_authorities(context: "ssl.SSLContext", path: str, digest: str = "") -> None:
    """Make *context* trust the certificate authorities in the file at *path*.

    The file is read only once. Unless *digest* is empty, the content must have that SHA-256 digest (hex). Raises
    ConfigError if the file is unreadable or has another digest, and ssl.SSLError or ValueError if it contains no valid
    certificates.
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
MAX_COMPARED_LINES = 500
"""Maximum number of lines to compare, old and new together, because the time grows quadratically."""


def server_digest(server: ServerConfig) -> str:
    """Return the SHA-256 (hex) of all settings that determine which program or URL a server uses.

    The digest covers the command, its arguments and working directory, the URL, the trusted certificates, all
    environment variables and headers with their values, the environment file with its content, and the sign-in
    settings. References (`${env:NAME}`) are not expanded. The server's name is not covered, because it grants
    no permissions.

    For a project's server, the digest also covers the values of references in the command, arguments, directory
    and URL, the content of the certificate file, and the restrictions (required reviews of results, disabled
    tools, rules that forbid calls). Secrets are covered by fingerprints that are slow to compute.

    For any other server, only the masked form of a secret is covered, so that a renewed token needs no new
    approval. Values written by the publisher of an installed server are never masked.
    """
    facts: dict[str, object] = {"form": _DIGEST_VERSION}
    sharing = _hidden_count(server)
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
            facts["ca_content"] = _ca_content_digest(server)
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


ShownValues = Mapping[tuple[str, str], str]
"""Texts to show for variables and headers, keyed by section ("env" or "headers") and name."""
ONLY_MASKED: ShownValues = MappingProxyType({})
"""No texts to show, so that each value is masked by the rules for its server."""


def show_foreign_values(server: ServerConfig) -> dict[tuple[str, str], str]:
    """Return how to show the environment variables of a server whose entry the user did not write.

    The user may have pasted the entry, for example. The keys are tuples ("env", NAME), and the values are the
    texts to show. As for a project's server, a value that may be code is shown even if its name suggests a
    secret. The result is empty for a server with a URL, and for a project's server, whose variables are always
    shown in this way.
    """
    if not server.is_stdio or server.source == "project":
        return {}
    return {("env", name): mask_secrets(name, text, is_foreign=True) for name, text in server.env.items()}


def describe_server(server: ServerConfig, shown: ShownValues = ONLY_MASKED) -> tuple[str, ...]:
    """Return readable lines that describe all settings covered by `server_digest`, not truncated.

    Secrets are masked. *shown* maps ("env" or "headers", NAME) to a text to show instead of the masked value.
    """
    lines: list[str] = []
    if server.is_stdio:
        lines.append(f"command: {_quote(server.command)}")
        lines += [f"argument {number}: {_quote(text)}" for number, text in enumerate(_describe_arguments(server), 1)]
        lines += [f"folder: {_quote(server.cwd)}"] if server.cwd else []
        lines += (
            [f"started in: {_quote(server.startup_folder)}"] if server.startup_folder not in ("", server.cwd) else []
        )
        lines += [f"environment file: {_quote(describe_env_path(server))}"] if server.env_file else []
        lines += [
            f"environment {_quote(name)}: {_quote(text)}" for name, text in masked_environment(server, shown).items()
        ]
    else:
        lines.append(f"address: {_quote(_describe_url(server))}")
        lines += [f"certificates: {_quote(describe_ca_file(server))}"] if server.ca_file else []
        lines += [f"header {_quote(name)}: {_quote(text)}" for name, text in masked_headers(server, shown).items()]
        lines += [f"sign-in {key}: {_quote(text)}" for key, text in masked_sign_in(server).items()]
    lines += describe_expansion(server) if server.source == "project" else ()
    return (*lines, *describe_restrictions(server))


def _describe_arguments(server: ServerConfig) -> tuple[str, ...]:
    """Return the arguments with secrets masked; each masked argument gets a short fingerprint.

    The fingerprint shows whether a masked argument has changed, which would require a new approval.
    """
    masked = masked_argv(server)[1:]
    count = sum(shown != text for shown, text in zip(masked, server.args, strict=True))
    return tuple(
        _add_fingerprint("argument", text, shown, count) for shown, text in zip(masked, server.args, strict=True)
    )


def _describe_url(server: ServerConfig) -> str:
    """Return the URL with secrets masked, followed by a short fingerprint if anything is masked; "" without a URL."""
    return _add_fingerprint("url", server.url, masked_url(server), 1)


def _add_fingerprint(name: str, text: str, shown: str, count: int) -> str:
    return shown if shown == text else f"{shown} (fingerprint {fingerprint(name, text, count)[:8]})"


def describe_expansion(server: ServerConfig) -> tuple[str, ...]:
    """Return one line with the current value of each `${…}` reference in the command, arguments, directory and URL."""
    return tuple(f"value of {_quote(text)}: {_quote(value)}" for text, value in masked_expansion(server).items())


def masked_expansion(server: ServerConfig) -> dict[str, str]:
    """Return the current values of the `${…}` references in a server's entry, keyed by reference.

    The references are those in the command, arguments, directory and URL. Secrets are masked. If the directory contains
    references, the key "folder" is added; its value is the path of the directory after expansion, with symbolic links
    resolved.
    """
    values = target_values(server)
    shown = {value.text: _display_reference(server, value, len(values)) for value in values}
    folder = {"folder": hide_secret_values(server, resolve_target(server).cwd)} if server.cwd_has_references else {}
    return shown | folder


def hide_secret_values(server: ServerConfig, text: str) -> str:
    """Return *text* with the secret values of expanded references replaced by `[hidden]`."""
    for value in target_values(server):
        if value.value and mask_secrets(value.name, value.value) != value.value:
            text = text.replace(value.value, HIDDEN)
    return text


def _bound_reference(value: ReferenceValue, count: int) -> list[str]:
    if value.value is None:
        return ["missing"]
    if mask_secrets(value.name, value.value) == value.value:
        return ["value", value.value]
    return ["fingerprint", fingerprint(value.name, value.value, count)]


def _display_reference(server: ServerConfig, value: ReferenceValue, count: int) -> str:
    if value.value is None:
        return "not set"
    seen = mask_secrets(value.name, value.value)
    if seen == value.value or server.source != "project":
        return seen
    return f"{seen} (fingerprint {fingerprint(value.name, value.value, count)[:8]})"


def describe_restrictions(server: ServerConfig) -> tuple[str, ...]:
    """Return one line per restriction on a project's server; return no lines for any other server."""
    if server.source != "project":
        return ()
    lines = [f"same server as yours: {_quote(name)}" for name in server.matching_servers]
    lines += ["results: reviewed by you before the model gets them"] if server.review_results else []
    lines += [f"disabled tool: {_quote(pattern)}" for pattern in server.disabled_tools]
    lines += [f"never: {_quote(rule)}" for rule in server.never_rules]
    return tuple(lines)


def _restriction_facts(server: ServerConfig) -> dict[str, object]:
    """Return the restrictions on a server that are set, keyed by name.

    Restrictions that are not set are omitted, so that the digest of an unrestricted server does not depend on them.
    """
    restrictions = {
        "review": server.review_results,
        "disabled": list(server.disabled_tools),
        "never": list(server.never_rules),
    }
    return {name: value for name, value in restrictions.items() if value}


def describe_ca_file(server: ServerConfig) -> str:
    """Return the path of the certificate file and, for a project's server, an abbreviated digest of the content."""
    if server.source != "project" or not server.ca_file:
        return server.ca_file
    content = _ca_content_digest(server)
    return f"{server.ca_file} (content {content if content == UNREADABLE else content[:8]})"


def _ca_content_digest(server: ServerConfig) -> str:
    """Return the SHA-256 (hex) of the certificate file, or the constant `UNREADABLE` if it cannot be read."""
    try:
        return server.ca_digest or ca_file_digest(server.ca_file)
    except ConfigError:
        return UNREADABLE


def masked_environment(server: ServerConfig, shown: ShownValues = ONLY_MASKED) -> dict[str, str]:
    """Return a server's environment variables, keyed by name, with probable secrets masked.

    The values of variables from the environment file are replaced by a placeholder. *shown* maps ("env", NAME)
    to a text to show instead of the masked value.
    """
    values = _display_values(server, "env", server.env, shown)
    names = describe_env_file(server)[2] if server.env_file else ()
    return dict(sorted({**dict.fromkeys(names, "[in the environment file]"), **values}.items()))


def describe_env_path(server: ServerConfig) -> str:
    """Return the path of the environment file with an abbreviated digest of its content, or "" if there is none."""
    if not server.env_file:
        return ""
    path, content, _ = describe_env_file(server)
    return f"{path} (content {content if content == UNREADABLE else content[:8]})"


def masked_headers(server: ServerConfig, shown: ShownValues = ONLY_MASKED) -> dict[str, str]:
    """Return a server's HTTP request headers, keyed by name, with probable secrets masked.

    *shown* maps ("headers", NAME) to a text to show instead of the masked value.
    """
    values = _display_values(server, "headers", server.headers, shown)
    return dict(sorted(values.items(), key=lambda pair: (pair[0].lower(), pair[0])))


def _display_values(
    server: ServerConfig, section: str, values: Mapping[str, str], shown: ShownValues
) -> dict[str, str]:
    sharing = _hidden_count(server)
    return {
        name: (
            shown[section, name]
            if (section, name) in shown
            else _display_value(server, name, text, sharing, section=section)
        )
        for name, text in values.items()
    }


def masked_sign_in(server: ServerConfig) -> dict[str, str]:
    """Return a server's sign-in settings, keyed as in `mcphost.oauth`; secrets are masked, references are not."""
    sharing = _hidden_count(server)
    return {
        key: _display_value(server, key, text, sharing, is_secret=hides)
        for key, text, hides in list_non_defaults(server.oauth)
    }


def describe_references(server: ServerConfig) -> tuple[str, ...]:
    """Return one printable line per reference in a server's entry, with the setting that contains the reference."""
    return tuple(f"{_quote(place)}: {_quote(what)}" for place, what in list_references(server))


def _mask_value(server: ServerConfig, name: str, text: str, is_secret: bool, *, section: str = "") -> str:
    """Return *text*, the value of the setting *name*, with secrets masked.

    If *is_secret* is set, everything except references is masked. *section* is "env" for an environment
    variable, "headers" for a header, and "" for any other setting. A variable or header is not masked if it
    still has the value that the server's publisher wrote.
    """
    if section and server.published.has(section, name, text):
        return text
    if is_secret:
        return "".join(part if REFERENCE.fullmatch(part) else HIDDEN for part in REFERENCE.split(text) if part)
    return mask_secrets(name, text, is_foreign=server.is_stdio and server.source in ("project", "flag"))


def _hidden_count(server: ServerConfig) -> int:
    """Return the number of variables, headers and sign-in settings that are masked in full or in part."""
    count = sum(_mask_value(server, name, text, hides) != text for name, text, hides in list_non_defaults(server.oauth))
    for section, pairs in (("env", server.env), ("headers", server.headers)):
        count += sum(_mask_value(server, name, text, False, section=section) != text for name, text in pairs.items())
    return count


def _bound_value(
    server: ServerConfig, name: str, text: str, hidden_count: int, *, section: str = "", is_secret: bool = False
) -> list[str]:
    """Return how a setting's value enters the approval digest: a kind, followed by a text.

    The kind is "value" (the plain text), "hidden" (the masked text) or "fingerprint". *hidden_count* is the result
    of `_hidden_count`; the other parameters are those of `_mask_value`.
    """
    seen = _mask_value(server, name, text, is_secret, section=section)
    if seen == text:
        return ["value", text]
    if server.source != "project":
        return ["hidden", seen]
    return ["fingerprint", fingerprint(name, text, hidden_count)]


def _display_value(
    server: ServerConfig, name: str, text: str, hidden_count: int, *, section: str = "", is_secret: bool = False
) -> str:
    seen = _mask_value(server, name, text, is_secret, section=section)
    if seen == text or server.source != "project":
        return seen
    return f"{seen} (fingerprint {fingerprint(name, text, hidden_count)[:8]})"


def diff_lines(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """Return a line diff: removed lines start with "- ", added lines with "+ ", unchanged lines with two spaces.

    If there are more than MAX_COMPARED_LINES lines in total, all lines of *before* are listed as removed and all lines
    of *after* as added. If the comparison would take too long, all lines from the first to the last difference are
    listed that way.
    """
    from mcphost.bounded_diff import compare_lines  # needed only when something has changed

    if len(before) + len(after) > MAX_COMPARED_LINES:
        return (*(f"- {line}" for line in before), *(f"+ {line}" for line in after))
    lines: list[str] = []
    for kind, start, end, new_start, new_end in compare_lines(list(before), list(after)).opcodes:
        if kind == "equal":
            lines += [f"  {line}" for line in before[start:end]]
        else:
            lines += [f"- {line}" for line in before[start:end]]
            lines += [f"+ {line}" for line in after[new_start:new_end]]
    return tuple(lines)


def _quote(text: str) -> str:
    """Return *text* sanitized and on one line; unusual spaces and private use characters are marked.

    The result is quoted if sanitizing changed the text, or if the text is empty or begins or ends with white space.
    """
    shown = mark_unusual_spaces(sanitize(text, keep_newlines=False))
    return f'"{shown}"' if shown != text or not text or text != text.strip() else shown
