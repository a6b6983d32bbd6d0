"""Readable description of the server settings that the user approves; `approval_digest` covers the same settings."""

import os
from collections.abc import Mapping, Sequence

from mcphost.config.approval_digest import (
    ONLY_MASKED,
    ShownValues,
    ca_content_digest,
    count_hidden,
    mask_value,
)
from mcphost.config.env_file import UNREADABLE, describe_env_file, is_project_file, read_env_file
from mcphost.config.oauth_settings import list_non_defaults
from mcphost.config.risky_variables import classify_variable
from mcphost.config.schema import ServerConfig
from mcphost.config.secret_masking import HIDDEN, fingerprint, mask_secrets
from mcphost.config.secrets import list_references
from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.config.variable_references import ReferenceValue, resolve_target, target_values
from mcphost.errors import ConfigError
from mcphost.sanitize import mark_unusual_spaces, sanitize

IN_ENV_FILE = "[in the environment file]"
"""Placeholder for the value of a variable from the environment file; if the value is shown, it follows this text."""

MAX_COMPARED_LINES = 500
"""Maximum number of lines to compare, old and new together, because the time grows quadratically."""


def show_foreign_values(server: ServerConfig) -> dict[tuple[str, str], str]:
    """Return the texts to show for the environment variables of an entry that the user did not write but, say, pasted.

    The keys are tuples ("env", NAME). A value that may be code is shown even if its name suggests a secret. The result
    is empty for a server with a URL. It is also empty for a project's server: `masked_environment` always shows the
    values of these servers that may be code.
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
            f"environment {_quote_variable(name)}: {_quote(text)}"
            for name, text in masked_environment(server, shown).items()
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
    """Return one line per `${…}` reference whose current value the approval covers, with this value."""
    return tuple(f"value of {_quote(text)}: {_quote(value)}" for text, value in masked_expansion(server).items())


def masked_expansion(server: ServerConfig) -> dict[str, str]:
    """Return the current values of the `${…}` references in a server's entry, keyed by reference.

    The references are those in the command, arguments, directory, URL and risky variables. Secrets are masked. If the
    directory contains references, the key "folder" is added; its value is the path of the directory after expansion,
    with symbolic links resolved.
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


def describe_ca_file(server: ServerConfig) -> str:
    """Return the path of the certificate file and, for a project's server, an abbreviated digest of the content."""
    if server.source != "project" or not server.ca_file:
        return server.ca_file
    content = ca_content_digest(server)
    return f"{server.ca_file} (content {content if content == UNREADABLE else content[:8]})"


def masked_environment(server: ServerConfig, shown: ShownValues = ONLY_MASKED) -> dict[str, str]:
    """Return a server's environment variables, keyed by name, with probable secrets masked.

    A placeholder replaces each value from the environment file. If the project may have written the file, risky
    values (see `risky_variables`) are shown after the placeholder. *shown* maps ("env", NAME) to a text to show
    instead of the masked value.
    """
    values = _display_values(server, "env", server.env, shown)
    return dict(sorted({**_display_env_file(server), **values}.items()))


def _display_env_file(server: ServerConfig) -> dict[str, str]:
    """Return a text to show for each variable of the environment file, keyed by name.

    The text is a placeholder. If the file is inside the project, the placeholder is followed by the value of each
    risky variable (see `risky_variables`), so that a project cannot hide the value of a risky variable from the
    user by moving the variable from the entry to the file.
    """
    if not server.env_file:
        return {}
    shown = dict.fromkeys(describe_env_file(server)[2], IN_ENV_FILE)
    risky = [name for name in shown if classify_variable(name)]
    try:
        if risky and is_project_file(server, os.environ):
            values = read_env_file(server, os.environ)  # fails if it has changed since its digest was made
            shown |= {name: f"{IN_ENV_FILE} {mask_secrets(name, values[name], is_foreign=True)}" for name in risky}
    except (ConfigError, KeyError):  # the file has just been changed or removed
        return shown
    return shown


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
    sharing = count_hidden(server)
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
    sharing = count_hidden(server)
    return {
        key: _display_value(server, key, text, sharing, is_secret=hides)
        for key, text, hides in list_non_defaults(server.oauth)
    }


def describe_references(server: ServerConfig) -> tuple[str, ...]:
    """Return one printable line per reference in a server's entry, with the setting that contains the reference."""
    return tuple(f"{_quote(place)}: {_quote(what)}" for place, what in list_references(server))


def _display_value(
    server: ServerConfig, name: str, text: str, hidden_count: int, *, section: str = "", is_secret: bool = False
) -> str:
    seen = mask_value(server, name, text, is_secret, section=section)
    if seen == text or server.source != "project":
        return seen
    return f"{seen} (fingerprint {fingerprint(name, text, hidden_count)[:8]})"


def diff_lines(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """Return a line diff of *before* and *after*.

    Removed lines start with "- ", added lines with "+ ", and unchanged lines with two spaces. To bound the time,
    the diff is coarser for long texts: with more than MAX_COMPARED_LINES lines in total, all lines are listed as
    removed and added. If a shorter comparison takes too long, all lines between the first and the last difference
    are listed as removed and added.
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


def _quote_variable(name: str) -> str:
    """Quote a variable's name as `_quote` does.

    The name "file" is always quoted. Without quotes, the line for a variable of this name, "environment file: …", would
    look like the line for `envFile`.
    """
    return f'"{name}"' if name == "file" else _quote(name)


def _quote(text: str) -> str:
    """Return *text* sanitized and on one line; unusual spaces and private use characters are marked.

    The result is quoted if sanitizing changed the text, or if the text is empty or begins or ends with white space.
    """
    shown = mark_unusual_spaces(sanitize(text, keep_newlines=False))
    return f'"{shown}"' if shown != text or not text or text != text.strip() else shown
