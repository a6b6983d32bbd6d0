"""References in a server's entry, such as `${env:NAME}`: parsing, listing, and expansion within limits."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Literal

from mcphost.config.schema import ServerConfig, ServerInput
from mcphost.errors import ConfigError
from mcphost.redact import register_secret, register_server_secret
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, replace
from mcphost.unicode_forms import split_url

ReferenceKind = Literal["variable", "keyring", "input", "place", "dollar", "unknown"]
Lookup = Callable[[str], str | None]
"""Function that returns the secret with a given name, or None."""

MAX_EXPANDED_TEXT = 131_072
"""Maximum characters of one expanded text: the length of an argument or variable that Linux allows."""
MAX_EXPANDED_ENTRY = 1_000_000
"""Maximum number of characters of all expanded texts of one entry together."""
_MAX_RESOLVED_TEXT = 8_192
"""Maximum length of a string that is expanded only for comparison or display."""

# Possessive, so that it takes linear time. Matches the innermost "${…}"; `_NESTED` finds one inside a default.
_REFERENCE = re.compile(r"\$\{((?:[^}$]|\$(?!\{)){0,1000}+)\}")
_NESTED = re.compile(r"\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]{0,199}+:-[^}$]{0,1000}+\$\{")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,199})(?::-(.*))?", re.DOTALL)
_SCHEME_END = re.compile(r"[^:/?#]*+://")
_HOST_VARIABLE = re.compile(r"[A-Za-z]{1,40}:[A-Za-z]")
_MAX_NAME_LENGTH = 200
SECRET_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASS", "AUTH", "CREDENTIALS")
_PLACES: dict[str, Callable[[], str]] = {
    "workspaceFolder": os.getcwd,
    "workspaceFolderBasename": lambda: os.path.basename(os.getcwd()),
    "userHome": lambda: os.path.expanduser("~"),
    "pathSeparator": lambda: os.sep,
    "/": lambda: os.sep,
}
"""Names that VS Code and Cursor use; the workspace is the folder in which mcphost was started."""
_DOLLAR = "$"
"""Name of the reference that stands for a dollar sign, so that `${$}{NAME}` becomes the text `${NAME}`."""


class Reference(Struct, frozen=True):
    """A reference in a string: its `text`, its position `start`, and the `name` that it contains.

    `kind` is one of these:

    - "variable": an environment variable
    - "keyring": a secret in the keyring
    - "input": a value that the user was asked for
    - "place": a folder, or the system's path separator
    - "dollar": a dollar sign
    - "unknown": a reference that is not expanded
    """

    kind: ReferenceKind
    name: str
    text: str
    start: int
    default: str | None = None

    @property
    def short_text(self) -> str:
        """The reference without its default value and without white space around the name."""
        prefix = (
            self.text[2 : self.text.index(":") + 1]
            if self.text.startswith(("${env:", "${keyring:", "${input:"))
            else ""
        )
        return f"${{{prefix}{self.name}}}" if self.kind != "unknown" else self.text

    @property
    def is_workspace(self) -> bool:
        """Whether the value of the reference depends on the folder in which mcphost was started."""
        return (self.kind == "place" and self.name.startswith("workspaceFolder")) or (
            self.kind == "variable" and self.name == "PWD"
        )


def find_references(text: str) -> tuple[Reference, ...]:
    """Return the references in *text* in order, including those of unknown kinds.

    Takes time proportional to the length of *text*.
    """
    if "${" not in text:
        return ()
    return tuple(_read_reference(match) for match in _REFERENCE.finditer(text))


def _read_reference(match: re.Match[str]) -> Reference:
    body, text, start = match[1], match[0], match.start()
    if body in _PLACES:
        return Reference("place", body, text, start)
    if body == _DOLLAR:
        return Reference("dollar", body, text, start)
    if variable := _VARIABLE.fullmatch(body):
        return Reference("variable", variable[1], text, start, variable[2])
    prefix, _, rest = body.partition(":")
    if prefix == "env":
        name, has_default, default = rest.partition(":-")
        kind: ReferenceKind = "variable" if len(name.strip()) <= _MAX_NAME_LENGTH else "unknown"
        return Reference(kind, name.strip(), text, start, default if has_default else None)
    if prefix in ("keyring", "input") and len(rest.strip()) <= _MAX_NAME_LENGTH:
        return Reference("keyring" if prefix == "keyring" else "input", rest.strip(), text, start)
    return Reference("unknown", body, text, start)


def has_nested_reference(text: str) -> bool:
    """Return whether the default of a reference in *text* contains another reference.

    No MCP host expands such references reliably.
    """
    return "${" in text and _NESTED.search(text) is not None


def is_host_variable(reference: Reference) -> bool:
    """Return whether a reference of unknown kind probably belongs to another MCP host.

    The result is True for `${command:NAME}`, for example. It is False for forms such as `${1%.*}`, which may be
    shell syntax in the arguments of a server that is started through a shell.
    """
    return reference.kind == "unknown" and _HOST_VARIABLE.match(reference.name) is not None


def expand_home(path: str) -> str:
    """Expand a leading `~` or `~/` to the home folder; `~user` is not expanded."""
    return os.path.expanduser(path) if path == "~" or path.startswith("~/") else path


class ReferenceExpander:
    """Expander for the references in one server's entry, with a limit on the total length of the results.

    References that occur in expanded values are not expanded again.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        keyring: Lookup | None = None,
        *,
        server: ServerConfig | None = None,
        text_limit: int = MAX_EXPANDED_TEXT,
    ) -> None:
        """Create an expander; *text_limit* is the maximum length of one result in characters.

        If *keyring* is None, references to secrets are rejected. `${input:ID}` refers to the inputs of *server*.
        """
        self._server = server
        self._environ = environ
        self._keyring = keyring
        self._text_limit = text_limit
        self._rest = MAX_EXPANDED_ENTRY

    def expand(self, text: str, where: str) -> str:
        """Return *text* with its references replaced by their values; *where* names the setting in messages.

        Secret values are registered for redaction. Raises ConfigError if a value is missing or the result is too long.
        """
        references = find_references(text)
        if not references:
            return text
        if has_nested_reference(text):
            raise nested_reference_error(where)
        parts: list[str] = []
        end = length = 0
        for reference in references:
            value = self._look_up(reference, where)
            parts += (text[end : reference.start], value)
            end = reference.start + len(reference.text)
            length += len(parts[-2]) + len(value)
            if length + len(text) - end > min(self._text_limit, self._rest):
                raise ConfigError(
                    f"{where} is over {min(self._text_limit, self._rest):,} characters with its references filled in.",
                    "Check the values of its variables.",
                )
        self._rest -= length
        return "".join((*parts, text[end:]))

    def _look_up(self, reference: Reference, where: str) -> str:
        if reference.kind == "unknown":
            return reference.text
        if reference.kind == "place":
            return _PLACES[reference.name]()
        if reference.kind == "dollar":
            return _DOLLAR
        if not reference.name:
            form = reference.short_text
            raise ConfigError(f"{where} has {form} without a name.", f"Write {form[:-1]}NAME}}.")
        if reference.kind == "variable":
            return self._look_up_variable(reference, where)
        if reference.kind == "input":
            return self._look_up_input(reference, where)
        if self._keyring is None:
            raise secret_place_error(where, "${keyring:…}")
        shown = sanitize(reference.name, keep_newlines=False)
        if _INPUT_ENTRY.fullmatch(reference.name):
            raise ConfigError(
                f"{where} refers to the keyring entry {shown}, which holds the input of one server.",
                "Write ${input:ID} in the entry of that server.",
            )
        value = self._keyring(reference.name)
        if value is None:
            raise ConfigError(
                f"{where} needs the keyring entry {shown}, which does not exist.",
                f"Store it, for instance with: uvx keyring set mcphost {quote(shown)}",
            )
        register_secret(value)
        return value

    def _look_up_input(self, reference: Reference, where: str) -> str:
        definition = find_input(self._server, reference.name) if self._server else None
        shown = sanitize(reference.name, keep_newlines=False)
        if self._server is None or definition is None:
            raise ConfigError(f"{where} has ${{input:{shown}}}, and no such input is defined.", INPUT_HINT)
        if definition.password and self._keyring is None:
            raise secret_place_error(where, f"${{input:{shown}}}")
        value = definition.stored_value
        if definition.password and self._keyring is not None:
            value = self._keyring(definition.keyring_entry)
            register_secret(value or "")
        if value is None:
            raise ConfigError(
                f"{where} needs the input {shown}, which is not set.",
                f"Set it: mcphost servers input {quote(self._server.name)} {quote(shown)}",
            )
        return value

    def _look_up_variable(self, reference: Reference, where: str) -> str:
        value = self._environ.get(reference.name, reference.default)
        if value is None:
            shown = sanitize(reference.name, keep_newlines=False)
            raise ConfigError(
                f"{where} needs the environment variable {shown}, which is not set.",
                f"Set {shown} and start mcphost again, or write a default: "
                f"{sanitize(reference.short_text[:-1], keep_newlines=False)}:-VALUE}}.",
            )
        if reference.name.upper().endswith(SECRET_ENDINGS):
            register_setting(self._server, reference.text, value, self._environ)
        return value


def register_setting(server: ServerConfig | None, text: str, value: str, environ: Mapping[str, str]) -> None:
    """Register the value of a secret setting, so that it is hidden in logs.

    *text* is the setting as written in the file, and *value* the same text with its references expanded. A value that a
    project's author wrote is registered with `register_server_secret`, which ignores ordinary words: otherwise, a
    project could choose words to hide in all logs. If *text* refers to a value of the user, *value* counts as the
    user's secret even in a project's entry.
    """
    is_own = server is None or server.source != "project"
    if is_own or any(_reads_own_value(reference, environ) for reference in find_references(text)):
        register_secret(value)
    else:
        register_server_secret(value)


def _reads_own_value(reference: Reference, environ: Mapping[str, str]) -> bool:
    has_value = reference.kind == "variable" and bool(environ.get(reference.name))  # an empty one hides nothing
    return has_value or reference.kind in ("keyring", "input")


_INPUT_ENTRY = re.compile(r"input-.*-[0-9a-f]{16}", re.IGNORECASE | re.DOTALL)
"""Pattern of the keyring entries of password inputs. Their names can be computed, and only the server that asks for an
input gets its value, so references cannot name them."""

INPUT_HINT = 'Add it to "inputs" in the file, with its "id" and "type".'


def find_input(server: ServerConfig, input_id: str) -> ServerInput | None:
    """Return the definition of the server's input with the given id, or None if there is none."""
    return next((one for one in server.inputs if one.id == input_id), None)


def secret_place_error(where: str, shown: str) -> ConfigError:
    """Return the error to raise for a reference to a secret in a setting that other programs can read.

    *where* names the setting, and *shown* is the reference as displayed.
    """
    return ConfigError(
        f"{where} has {shown}, which is for secrets; other programs and logs can see them there.",
        'Put it into "env" or "headers", and let the program read the variable.',
    )


def nested_reference_error(where: str) -> ConfigError:
    """Return the error to raise for a reference inside the default of another reference."""
    return ConfigError(
        f"{where} has a reference inside the default of another one.", "Write the default as plain text."
    )


def target_texts(server: ServerConfig) -> tuple[tuple[str, str, str], ...]:
    """Return the settings that determine which program is started or which URL is used.

    These are the command, the arguments and, if it contains references, the folder; for a remote server, only the
    URL. Each item is a tuple of a label, the key in the configuration file, and the text.
    """
    if not server.is_stdio:
        return (("address", "url", server.url),)
    texts = [("command", "command", server.command)]
    texts += [(f"argument {number}", f"args[{number - 1}]", text) for number, text in enumerate(server.args, 1)]
    return (*texts, ("folder", "cwd", server.cwd)) if server.cwd_has_references else tuple(texts)


class ReferenceValue(Struct, frozen=True):
    """A reference as displayed (`text`), and its value in this process, or None if the value is missing."""

    text: str
    name: str
    value: str | None


_INHERITED_KEYS = ("env.HOME", "env.PATH", "env.SHELL", "env.TMPDIR")
"""Keys of risky variables that each server inherits; PATH differs between the terminals of most developers."""


def target_values(server: ServerConfig) -> tuple[ReferenceValue, ...]:
    """Return the current values of the references that decide which program is started or which URL is used.

    These are the references in `target_texts`, a leading `~` and, for a project's server, the references in risky
    variables (see `risky_variables`). In variables such as PATH, a reference to the variable itself is omitted, as
    in `PATH=…${env:PATH}…`.

    Each reference is included once. If an environment variable is set, references to it with different defaults
    count as the same reference, because the defaults are not used.
    """
    values: dict[str, ReferenceValue] = {}
    for place, key, text in (*target_texts(server), *_risky_variable_texts(server)):
        if place not in ("address", "variable") and expand_home(text) != text:
            values["~"] = ReferenceValue("~", "~", os.path.expanduser("~"))
        for reference in find_references(text):
            if reference.kind not in ("variable", "place", "input"):
                continue
            is_default = reference.kind == "variable" and reference.name not in os.environ
            if place == "variable" and key == f"env.{reference.name}" in _INHERITED_KEYS and not is_default:
                continue  # the server also gets this value if the entry does not have the variable
            shown = reference.text if is_default else reference.short_text
            if shown not in values:
                values[shown] = ReferenceValue(shown, reference.name, _current_value(server, reference))
    return tuple(values.values())


def _risky_variable_texts(server: ServerConfig) -> tuple[tuple[str, str, str], ...]:
    """Return the variables of a project's server that are risky and contain references; see `target_texts`."""
    if server.source != "project" or not server.is_stdio:
        return ()
    filled = [(name, text) for name, text in server.env.items() if "${" in text]
    if not filled:
        return ()
    from mcphost.config.risky_variables import classify_variable  # few entries need it

    return tuple(("variable", f"env.{name}", text) for name, text in filled if classify_variable(name) is not None)


def _current_value(server: ServerConfig, reference: Reference) -> str | None:
    if reference.kind == "place":
        return _PLACES[reference.name]()
    if reference.kind == "dollar":
        return _DOLLAR
    if reference.kind == "input":
        definition = find_input(server, reference.name)
        return definition.stored_value if definition else None
    return os.environ.get(reference.name, reference.default) if reference.kind == "variable" else None


def resolve_text(server: ServerConfig, text: str) -> str:
    """Return *text* with all references expanded to their values in this process.

    A reference to a secret, or to a value that is missing, is replaced with empty text. If the result becomes too
    long, the remaining references are not expanded.
    """
    parts: list[str] = []
    end = length = 0
    for reference in find_references(text):
        literal = text[end : reference.start]
        value = reference.text if reference.kind == "unknown" else _current_value(server, reference) or ""
        parts += (literal, value)
        end = reference.start + len(reference.text)
        length += len(literal) + len(value)
        if length > _MAX_RESOLVED_TEXT:
            break
    return "".join((*parts, text[end:]))


def has_target_references(server: ServerConfig) -> bool:
    """Return whether the command, an argument, the folder or the URL contains references or a leading `~`."""
    return any("${" in text or text[:1] == "~" for _, _, text in target_texts(server))


def may_have_secrets(source: str, key: str) -> bool:
    """Return whether a setting of an entry may contain references to secrets.

    *source* is the kind of file that contains the entry, and *key* is the setting, such as `args[2]`. Secrets in
    arguments and URLs are less safe: other programs can see arguments, and servers and proxies log URLs. Some
    servers accept a secret only in an argument or the URL, so such references are allowed in the user's own
    entries, but not in a project's file.
    """
    return source == "user" and (key == "url" or key.startswith("args["))


def has_secret_in_url(server: ServerConfig) -> bool:
    """Return whether the server's URL contains a reference to a secret: a keyring entry or a password input."""
    passwords = {one.id for one in server.inputs if one.password}
    return any(
        one.kind == "keyring" or (one.kind == "input" and one.name in passwords) for one in find_references(server.url)
    )


def check_secret_place(source: str, key: str, text: str, reference: Reference, where: str) -> None:
    """Raise ConfigError if *reference*, a reference to a secret, is not allowed in a setting.

    *source* is the kind of file that contains the entry, *key* the setting, such as `args[2]`, and *text* its
    value. See `may_have_secrets`. In a URL, a secret must not be part of the host. Error messages begin with
    *where*.
    """
    shown = "${keyring:…}" if reference.kind == "keyring" else f"${{input:{reference.name}}}"
    if not may_have_secrets(source, key):
        raise secret_place_error(where, shown)
    if key != "url":
        return
    start, end = _find_authority(text)
    if start < 0 or text.rfind("@", start, end) < reference.start < end:
        raise ConfigError(f"{where} has {shown}, a secret, in its host.", "Write the host as plain text.")


def _find_authority(text: str) -> tuple[int, int]:
    """Return the start and end of the authority in a URL with references.

    The authority consists of the user information, the host and the port. Returns (-1, -1) if the URL has no
    scheme. A reference at the start of the URL counts as part of the authority, because it may stand for the scheme
    and the host, as in `${env:BASE}/mcp`.
    """
    plain = _REFERENCE.sub(lambda match: "x" * len(match[0]), text)  # what is inside references does not count
    scheme = _SCHEME_END.match(plain)
    if scheme is None and not text.startswith("${"):
        return -1, -1
    start = scheme.end() if scheme else 0
    return start, next((at for at in range(start, len(plain)) if plain[at] in "/?#"), len(plain))


def expand_target(server: ServerConfig, environ: Mapping[str, str], keyring: Lookup | None = None) -> ServerConfig:
    """Return the server with the references in its command, arguments, folder and URL expanded.

    A leading `~` is expanded in the command, the arguments and the folder. References to secrets are looked up in
    *keyring*, but only where `may_have_secrets` allows them. Raises ConfigError if a value is missing, if the command
    becomes empty, if the URL becomes invalid, or if a secret determines the host.
    """
    if not has_target_references(server):
        return server
    location = entry_location(server)
    plain = ReferenceExpander(environ, server=server)
    secret = ReferenceExpander(environ, keyring, server=server)

    def expand(key: str, text: str) -> str:
        return _expand_text(secret if may_have_secrets(server.source, key) else plain, key, text, location)

    target = _replace_target(server, expand)
    if not server.is_stdio:
        check_address(target.url, location)
        if keyring is not None:
            _check_host(server, target.url, environ, location)
    elif not target.command.strip():
        raise ConfigError(f'{location}: "command" is empty with its references filled in.', "Check its variables.")
    return target


def _check_host(server: ServerConfig, url: str, environ: Mapping[str, str], location: str) -> None:
    """Raise ConfigError if the host in a server's URL depends on a secret.

    *url* is the URL with all references expanded. The references are expanded again with "0" in place of each
    secret; if this changes the host, the host depends on a secret.
    """
    expander = ReferenceExpander(environ, lambda name: "0", server=server)
    with_other_secrets = split_url(_expand_text(expander, "url", server.url, location).strip())
    if with_other_secrets.netloc.rpartition("@")[2] != split_url(url).netloc.rpartition("@")[2]:
        raise ConfigError(f'{location}: a secret in "url" changes its host.', "Write the host as plain text.")


def resolve_target(server: ServerConfig) -> ServerConfig:
    """Expand a server's references like `expand_target`, but only for comparing or displaying the server.

    The environment variables of this process are used. References to secrets are replaced with empty text where
    `may_have_secrets` allows them. Text that cannot be expanded, or would become too long, is left unchanged.
    """
    if not has_target_references(server):
        return server
    plain = ReferenceExpander(os.environ, server=server, text_limit=_MAX_RESOLVED_TEXT)
    secret = ReferenceExpander(os.environ, lambda name: "", server=server, text_limit=_MAX_RESOLVED_TEXT)

    def expand(key: str, text: str) -> str:
        expander = secret if may_have_secrets(server.source, key) else plain
        try:
            return _expand_text(expander, key, text, "")
        except ConfigError:
            return text

    target = _replace_target(server, expand)
    return target if target.is_stdio == server.is_stdio else server


def _replace_target(server: ServerConfig, expand: Callable[[str, str], str]) -> ServerConfig:
    """Return the server with *expand* applied to its command, arguments and folder, or to its URL.

    *expand* is called with the key in the configuration file and the text, and returns the new text.
    """
    if not server.is_stdio:
        return replace(server, url=expand("url", server.url).strip())
    args = tuple(expand(f"args[{number}]", text) for number, text in enumerate(server.args))
    cwd = resolve_folder(server.file, expand("cwd", server.cwd)) if server.cwd_has_references else server.cwd
    return replace(server, command=expand("command", server.command), args=args, cwd=cwd, cwd_has_references=False)


def _expand_text(expander: ReferenceExpander, key: str, text: str, location: str) -> str:
    where = f'{location}: "{key}"'
    # Expand the home folder first, because the value of a reference must not be expanded again.
    expanded = expander.expand(text if key == "url" else expand_home(text), where)
    if "\0" in expanded:
        raise ConfigError(f"{where} has a NUL character in it.", "Check the values of its variables.")
    return expanded


def resolve_folder(file: str, path: str) -> str:
    """Return *path*, relative to the folder of the configuration *file*, as an absolute path without symbolic links."""
    return os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(file)), path))


def entry_location(server: ServerConfig) -> str:
    """Return the server's configuration file and name, for use at the start of messages."""
    return f'{server.file}: server "{server.name}"' if server.file else f'server "{server.name}"'


def check_address(url: str, location: str) -> None:
    """Check that *url* is an http or https URL without invisible characters. Raises ConfigError."""
    try:
        parts = split_url(url)
        bad = parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0
    except ValueError:
        bad = True
    if bad or any(char.isspace() or not char.isprintable() for char in url):
        raise ConfigError(
            f'{location}: "url" is not an http or https address.', "It should look like https://host/mcp."
        )


def uses_workspace(texts: Iterable[str]) -> bool:
    """Return whether any of *texts* contains a reference to the folder in which mcphost was started."""
    return any(reference.is_workspace for text in texts for reference in find_references(text))
