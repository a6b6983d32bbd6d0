"""A project's lock file, `mcphost.lock`: its format, and functions that read and write it safely.

The file records the command or URL of each of the project's servers, and the tools that each server offers,
so that any change can be reviewed. It is JSON with sorted keys, indented by two spaces: unchanged servers
always produce the same bytes, and `git diff` shows what has changed. A value that may be a secret is never
stored; the file contains only a digest of it that is slow to compute.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, cast

from mcphost.config.file_edits import FileSnapshot, read_snapshot, replace_if_unchanged
from mcphost.config.json_files import decode_text, describe_type
from mcphost.config.schema import Meta
from mcphost.errors import ConfigError, LockFileError, MalformedMessage
from mcphost.json_limits import check_plain_value
from mcphost.sanitize import escape_unsafe_json, sanitize_line
from mcphost.serialization import Struct, convert, nesting_depth, replace, to_builtins

LOCK_FILE = "mcphost.lock"
LOCK_VERSION = 3
MAX_LOCK_BYTES = 8_000_000
MAX_SHOWN_BYTES = 64_000
"""Maximum bytes of a stored definition; of a larger one, only the start of title and description is kept."""
MAX_SHOWN_TEXT = 2_000
MAX_TOOLS = 10_000
MAX_TOOL_NAME = 1_000
_MAX_SHOWN_DEPTH = 32
_FILE_MODE = 0o644
_LOCK_AGAIN = "Restore it from version control, or delete it and write it again: mcphost servers lock"
_CONFLICT = re.compile(r"(?m)(?:<{7}|={7}|>{7})(?: |\r?$)")

_Text = Annotated[str, Meta(max_length=100_000)]
_ServerName = Annotated[str, Meta(max_length=128)]
_ToolName = Annotated[str, Meta(max_length=MAX_TOOL_NAME)]
_Digest = Annotated[str, Meta(pattern="^sha256:[0-9a-f]{64}$")]
_DigestOrNone = Annotated[str, Meta(pattern="^(?:sha256:[0-9a-f]{64})?$")]
_Words = Annotated[tuple[_Text, ...], Meta(max_length=10_000)]
_Pairs = Annotated[dict[_Text, _Text], Meta(max_length=1_000)]


class LockedPackage(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The package that a server's command runs; `version` and `digest` are "" if the command does not specify them."""

    type: Literal["npm", "pypi", "nuget", "oci"]
    name: _Text
    version: _Text = ""
    digest: _Text = ""


class LockedOrigin(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The registry from which a server was installed, and the server's name and version in this registry."""

    url: _Text
    name: _Text
    version: _Text = ""


class LockedIdentity(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """The name and version that a locked server reported, and the negotiated protocol revision."""

    name: _Text
    version: _Text = ""
    protocol_version: _Text = ""


class LockedTool(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool in a lock file: `digest` covers its whole definition, and `definition` is the part shown to reviewers."""

    digest: _Digest
    definition: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies mutable defaults


class LockedInput(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The definition of a value that the user is asked for (`${input:ID}`), without the value."""

    description: _Text = ""
    password: bool = False
    options: _Words = ()
    default: _Text = ""


class LockedServer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", forbid_unknown_fields=True):
    """A server in a lock file: the settings for starting or reaching it, and what it reported when it was locked.

    References in the settings are not expanded.

    - `env_file_variables` is None if there is no environment file, or if it could not be read.
    - `oauth` contains the sign-in settings.
    - `ca_digest` is the SHA-256 of the certificate file; "" if there is no such file, or if it could not be read.
    - `disabled_tools` is sorted.
    - `sampling` contains the limits under the keys of `mcphost.sampling`.
    - `identity` is None if the server was not started, because it was disabled.
    """

    command: _Words = ()
    cwd: _Text = ""
    env: _Pairs = {}  # noqa: RUF012
    env_file: _Text = ""
    env_file_variables: _Pairs | None = None
    url: _Text = ""
    transport: _Text = ""
    headers: _Pairs = {}  # noqa: RUF012
    oauth: _Pairs = {}  # noqa: RUF012
    ca_file: _Text = ""
    ca_digest: _DigestOrNone = ""
    inputs: Annotated[dict[_Text, LockedInput], Meta(max_length=1_000)] = {}  # noqa: RUF012
    disabled_tools: _Words = ()
    review_results: bool = False
    sampling: Annotated[dict[_Text, int], Meta(max_length=100)] = {}  # noqa: RUF012
    package: LockedPackage | None = None
    registry: LockedOrigin | None = None
    identity: LockedIdentity | None = None
    tools: Annotated[dict[_ToolName, LockedTool], Meta(max_length=MAX_TOOLS)] = {}  # noqa: RUF012


class LockDocument(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The content of a lock file; servers are keyed by name."""

    lock_version: Literal[3] = LOCK_VERSION
    servers: Annotated[dict[_ServerName, LockedServer], Meta(max_length=1_000)] = {}  # noqa: RUF012


def shown_definition(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a tool's definition that is shown to reviewers, limited in size and depth."""
    keys = ("title", "description", "inputSchema", "outputSchema", "annotations", "execution")
    shown = {key: definition[key] for key in keys if definition.get(key) is not None}
    raw = _dump(shown, indent=None)
    is_small = len(raw) <= MAX_SHOWN_BYTES and nesting_depth(raw, _MAX_SHOWN_DEPTH) <= _MAX_SHOWN_DEPTH
    if is_small and len(_dump(shown, indent=2)) <= MAX_SHOWN_BYTES:
        return shown
    texts = {key: shown[key] for key in ("title", "description") if isinstance(shown.get(key), str)}
    return {key: text if len(text) <= MAX_SHOWN_TEXT else f"{text[:MAX_SHOWN_TEXT]}…" for key, text in texts.items()}


def read_lock(path: Path) -> tuple[LockDocument, FileSnapshot]:
    """Read a lock file; return its content and a snapshot of the file for `write_lock`.

    Raises FileNotFoundError if the file does not exist, and LockFileError if it is not a valid lock file.
    """
    try:
        snapshot = read_snapshot(path, MAX_LOCK_BYTES)
    except ConfigError as error:
        raise LockFileError(error.message, _LOCK_AGAIN) from error
    return parse_lock(snapshot.content, str(path)), snapshot


def parse_lock(raw: bytes, name: str) -> LockDocument:
    """Parse the content of a lock file; errors refer to the file as *name*. Raises LockFileError."""
    try:
        check_plain_value(raw)
        document = json.loads(decode_text(raw, name), object_pairs_hook=_make_object, parse_constant=_refuse_constant)
    except (MalformedMessage, RecursionError, ValueError) as error:
        if isinstance(error, json.JSONDecodeError) and _is_conflict(error):
            raise LockFileError(
                f"{name} has a merge conflict.", "Resolve it, or delete it and write it again: mcphost servers lock"
            ) from error
        raise LockFileError(f"{name} is not valid: {_explain(error)}", _LOCK_AGAIN) from error
    if not isinstance(document, dict):
        raise LockFileError(f"{name} is not valid: it contains {describe_type(document)}, not an object.", _LOCK_AGAIN)
    version = cast("dict[str, Any]", document).get("lockVersion")
    if type(version) is not int:
        raise LockFileError(f'{name} is not valid: it has no "lockVersion" that is a whole number.', _LOCK_AGAIN)
    if version != LOCK_VERSION:
        shown = str(version)[:20] if abs(version) < 10**20 else "a huge number"
        raise LockFileError(
            f'{name} has "lockVersion" {shown}; this mcphost reads only {LOCK_VERSION}.',
            "Use the version of mcphost that wrote it, or delete it and write it again: mcphost servers lock"
            if version > LOCK_VERSION
            else "An older mcphost wrote it. Delete it and write it again: mcphost servers lock",
        )
    try:
        return convert(document, LockDocument, "lock file")
    except MalformedMessage as error:
        raise LockFileError(f"{name} is not valid: {_explain(error)}", _LOCK_AGAIN) from error


def encode_lock(document: LockDocument) -> bytes:
    """Return a lock file as bytes; the same content always gives the same bytes.

    If tool definitions make the file too large, the schemas of all tools are left out and, if that is not enough, their
    titles and descriptions as well. The digests of the definitions are always included. Raises ConfigError if the file
    is still too large.
    """
    for kept in (None, ("title", "description"), ()):
        raw = _dump(to_builtins(document if kept is None else _with_definitions(document, kept)), indent=2)
        if len(raw) <= MAX_LOCK_BYTES and _has_few_values(raw):
            parse_lock(raw, LOCK_FILE)  # check that the file can be read again
            return raw
    raise ConfigError(f"The lock file would be over {MAX_LOCK_BYTES // 1_000_000} MB.", "Lock fewer servers.")


def write_lock(path: Path, before: FileSnapshot | None, raw: bytes) -> None:
    """Write a lock file. If *before* is None, the file must not exist yet.

    Raises ConfigError if the file cannot be written, or if it has changed since *before* was read.
    """
    replace_if_unchanged(path, before, raw, mode=None if before else _FILE_MODE)


def _has_few_values(raw: bytes) -> bool:
    try:
        check_plain_value(raw)
    except MalformedMessage:
        return False
    return True


def _with_definitions(document: LockDocument, keys: tuple[str, ...]) -> LockDocument:
    """Return the lock file with only the given *keys* in each tool's definition."""
    servers = {
        name: replace(server, tools={tool: _with_keys(locked, keys) for tool, locked in server.tools.items()})
        for name, server in document.servers.items()
    }
    return replace(document, servers=servers)


def _with_keys(tool: LockedTool, keys: tuple[str, ...]) -> LockedTool:
    return replace(tool, definition={key: text for key, text in tool.definition.items() if key in keys})


def _dump(value: Any, *, indent: int | None) -> bytes:
    # Not limited to ASCII, so that text in any language is readable; characters that can hide text are escaped.
    text = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=False) + "\n"
    return escape_unsafe_json(text).encode("utf-8", "replace")


def _is_conflict(error: json.JSONDecodeError) -> bool:
    """Return whether parsing JSON failed at a line that begins with a merge conflict marker.

    The other lines need not be searched, because no parser gets past a conflict marker.
    """
    start = error.doc.rfind("\n", 0, error.pos + 1) + 1
    return _CONFLICT.match(error.doc, start) is not None


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"it has the key {key[:100]!r} twice in one object.")
        members[key] = value
    return members


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"the constant {text} is not JSON.")


def _explain(error: BaseException) -> str:
    """Return the reason why a lock file is invalid, as one line of limited length."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}."
    text = error.message if isinstance(error, MalformedMessage) else str(error)
    text = text.removeprefix("The lock file is not valid: ") or type(error).__name__
    shown = sanitize_line(text, 300).rstrip(".")
    return f"{shown[:1].lower()}{shown[1:]}."
