"""Turns the `mcpServers` of a file (the format of Claude Desktop, Cursor and VS Code) into ServerConfig values.

A broken entry is left out and named; the others stay. Keys we do not know are ignored: other hosts have their own.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any, Literal, cast

from mcphost.config.json_files import DuplicateKeyDict, describe_type
from mcphost.config.oauth import FIELD_BY_KEY, SECRET_FIELDS, parse_oauth
from mcphost.config.roots import WORKSPACE_FOLDER, parse_roots
from mcphost.config.sampling import parse_sampling
from mcphost.config.schema import OAuthConfig, RootConfig, ServerConfig, Source
from mcphost.errors import ConfigError
from mcphost.protocol.logging import LEVELS
from mcphost.protocol.revisions import Revision, parse_revision
from mcphost.redact import is_probable_secret
from mcphost.sanitize import sanitize
from mcphost.serialization import replace
from mcphost.unicode_forms import split_url

_TRANSPORTS: dict[str, Literal["auto", "streamable-http", "sse"]] = {
    "http": "auto",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
    "stdio": "auto",
}
_ERAS = ("auto", "stateless", "handshake")
_MAX_NAME_LENGTH = 128
_MAX_SERVERS = 1000
_MAX_PAIRS = 500
"""Variables or headers of one server."""
_MAX_PROJECT_ARGUMENTS = 1_000
"""Arguments of all servers of a project's file: each may be a path, which is followed."""
OWN_KEY = "mcphost"
_REFERENCE = re.compile(r"\$\{([^}]{0,200})\}")
_WORKSPACE_REFERENCE = re.compile(r"\$\{env:\s*PWD\s*\}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

ProblemCallback = Callable[[str], None]


def parse_servers(document: Any, file: str, source: Source, on_problem: ProblemCallback) -> tuple[ServerConfig, ...]:
    """Every usable server of one document, in its order; `problem` hears one sentence for each that is not.

    Raises ConfigError when the document as a whole is not what it should be.
    """
    if not isinstance(document, dict):
        raise ConfigError(
            f"{file}: the file holds {describe_type(document)}, not an object.", 'It starts like {"mcpServers": {…}}.'
        )
    members = cast("dict[str, Any]", document)
    key = next((key for key in ("mcpServers", "servers") if key in members), None)
    if isinstance(document, DuplicateKeyDict) and key in document.duplicate_keys:
        on_problem(f'{file}: the key "{key}" is there twice; only the first one counts. Merge them.')
    if key is None:
        if set(members) - {OWN_KEY}:
            on_problem(f'{file}: there is no "mcpServers" in it, so it names no server. Add {{"mcpServers": {{…}}}}.')
        return ()
    entries = members[key]
    if not isinstance(entries, dict):
        raise ConfigError(
            f'{file}: "{key}" is {describe_type(entries)}, not an object.',
            "It maps each server's name to its settings.",
        )
    if isinstance(entries, DuplicateKeyDict):
        for name in entries.duplicate_keys:
            on_problem(
                f"{_entry_location(file, name)}: there are two servers of this name; "
                "only the first one counts. Rename one."
            )
    servers = list(cast("dict[str, Any]", entries).items())
    if len(servers) > _MAX_SERVERS:
        on_problem(f"{file}: it has {len(servers):,} servers; only the first {_MAX_SERVERS:,} are read.")
    made: list[ServerConfig] = []
    arguments = 0
    for name, entry in servers[:_MAX_SERVERS]:
        try:
            one = _ServerEntry(name, entry, file, source, on_problem).build()
            if source == "project" and arguments + len(one.args) > _MAX_PROJECT_ARGUMENTS:
                why = (
                    f"{_entry_location(file, name)}: the servers of the file have more than "
                    f"{_MAX_PROJECT_ARGUMENTS:,} arguments."
                )
                raise ConfigError(why, "It is left out; move it into your own mcp.json.")
            arguments += len(one.args)
            made.append(one)
        except ConfigError as error:
            on_problem(str(error))
    return tuple(made)


def parse_file_roots(document: Any, file: str, source: Source, on_problem: ProblemCallback) -> tuple[RootConfig, ...]:
    """The folders under `mcphost.roots` of one document; the user's own are in config.toml and not there."""
    own = cast("dict[str, Any]", document).get(OWN_KEY) if isinstance(document, dict) else None
    if not isinstance(own, dict) or "roots" not in own:
        return ()
    if source == "user":
        on_problem(f'{file}: "{OWN_KEY}.roots" belongs into config.toml, as roots = […]; it is not used here.')
        return ()
    return parse_roots(cast("dict[str, Any]", own)["roots"], file, source, on_problem)


def _entry_location(file: str, name: str) -> str:
    return f'{file}: server "{sanitize(name[:_MAX_NAME_LENGTH], keep_newlines=False)}"'


class _ServerEntry:
    """One entry while it is checked; every method raises ConfigError naming file, server, key and fix."""

    def __init__(self, name: str, entry: Any, file: str, source: Source, on_problem: ProblemCallback) -> None:
        self.name, self.file, self.on_problem = name, file, on_problem
        self.source: Source = source
        self.location = _entry_location(file, name)
        if not isinstance(entry, dict):
            raise ConfigError(
                f"{self.location} is {describe_type(entry)}, not an object.", 'Give it a "command" or a "url".'
            )
        self.entry = cast("dict[str, Any]", entry)

    def build(self) -> ServerConfig:
        """The checked value."""
        self._check_name()
        command, url = self._get_text("command"), self._get_text("url")
        if bool(command) == bool(url):
            what = 'both "command" and "url"' if command else 'neither "command" nor "url"'
            raise ConfigError(f"{self.location} has {what}.", "A server is either a program or an address.")
        ours = self.entry.get("mcphost", {})
        if not isinstance(ours, dict):
            raise ConfigError(
                f'{self.location}: "mcphost" is {describe_type(ours)}, not an object.', "Correct or remove it."
            )
        own = cast("dict[str, Any]", ours)
        if command:
            self._check_command(command)
        else:
            self._check_url(url)
        cwd = self._get_text("cwd")
        oauth = self._parse_oauth(own)
        for key in (key for key, field in FIELD_BY_KEY.items() if field in SECRET_FIELDS):
            if (written := str(getattr(oauth, FIELD_BY_KEY[key]))) and "${" not in written:
                self._warn_about_secret(f"mcphost.oauth.{key}", "${env:NAME} or ${keyring:NAME}")
        env = self._get_pairs("env")
        return ServerConfig(
            name=self.name,
            command=_expand_home(command),
            args=self._get_texts("args"),
            env=env,
            cwd=self._resolve_cwd(cwd) if command else _expand_home(cwd),
            startup_folder=os.getcwd() if command and (_is_in_workspace(cwd) or _uses_workspace(env)) else "",
            url=url,
            transport=self._parse_transport(url),
            headers=self._parse_headers(),
            oauth=oauth,
            era=self._parse_era(own),
            revision=self._parse_revision(own),
            disabled=self._get_flag(own, "disabled") or self._get_flag(self.entry, "disabled"),
            timeout=self._parse_timeout(own),
            ca_file=self._parse_ca_file(own, url),
            log_level=self._parse_log_level(own),
            trust_annotations=self._parse_trust_annotations(own),
            disabled_tools=(*self._get_texts("disabledTools"), *self._get_texts("disabledTools", own))[:_MAX_SERVERS],
            review_results=self._get_flag(own, "reviewResults"),
            sampling_limits=parse_sampling(own.get("sampling"), self.location, self.source, self.on_problem),
            source=self.source,
            file=self.file,
        )

    def _resolve_cwd(self, cwd: str) -> str:
        """Return where the program starts: the folder of the file that names it, unless the entry says otherwise.

        It is never by chance where mcphost was started. A folder that somebody else wrote may hold programs of the
        names that npx, python -m and others look for where they are started; so whoever wants a server to run there
        says so, and approves it for each folder. Symbolic links are followed here: the folder that is approved is the
        one that the program starts in, and a link that points elsewhere later is another folder.
        """
        if "\0" in cwd:
            raise ConfigError(f'{self.location}: "cwd" has a NUL character in it.', "Remove it.")
        if _is_in_workspace(cwd):
            return os.path.realpath(os.path.join(os.getcwd(), cwd[len(WORKSPACE_FOLDER) :].lstrip("/")))
        return os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(self.file)), _expand_home(cwd)))

    def _parse_oauth(self, own: dict[str, Any]) -> OAuthConfig:
        """Return what is written about signing in; whoever wrote a folder's file cannot widen where that may lead."""
        oauth = parse_oauth(own.get("oauth"), self.location)
        if oauth.private and self.source != "user":
            self.on_problem(
                f'{self.location}: "mcphost.oauth.private" counts only in your own mcp.json; '
                "signing in at a private address "
                "is refused. If that address is right, put the server into your own mcp.json."
            )
            return replace(oauth, private=False)
        return oauth

    def _check_name(self) -> None:
        if not self.name or self.name != self.name.strip() or sanitize(self.name, keep_newlines=False) != self.name:
            raise ConfigError(
                f"{self.location}: the name is empty or has invisible characters.", "Give it a plain name."
            )
        if odd := next((sign for sign in self.name if sign.isspace() and sign != " "), ""):
            raise ConfigError(
                f"{self.location}: the name has white space that is no plain blank (U+{ord(odd):04X}).",
                "Put a blank there.",
            )
        if len(self.name) > _MAX_NAME_LENGTH:
            raise ConfigError(f"{self.location}: the name is over {_MAX_NAME_LENGTH} characters.", "Shorten it.")
        if self.name.startswith("-"):
            raise ConfigError(f"{self.location}: a name cannot begin with a dash.", "Rename it.")

    def _check_command(self, command: str) -> None:
        if "\0" in command or any("\0" in text for text in self._get_texts("args")):
            raise ConfigError(f"{self.location}: the command has a NUL character in it.", "Remove it.")
        if " " in command and not self.entry.get("args") and not Path(_expand_home(command)).exists():
            program, *rest = sanitize(command, keep_newlines=False).split()
            self.on_problem(
                f'{self.location}: "command" is one program, without its arguments; {command!r} will not be found. '
                f'Write "command": "{program}", "args": {rest!r}.'.replace("'", '"')
            )

    def _check_url(self, url: str) -> None:
        try:
            parts = split_url(url)
            bad = parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0
        except ValueError:
            bad = True
        if bad or any(char.isspace() or not char.isprintable() for char in url):
            raise ConfigError(
                f'{self.location}: "url" is not an http or https address.', "It looks like https://host/mcp."
            )

    def _parse_transport(self, url: str) -> Literal["auto", "streamable-http", "sse"]:
        wanted = self._get_text("type") or self._get_text("transport")
        if not wanted:
            return "auto"
        if wanted not in _TRANSPORTS:
            raise ConfigError(
                f'{self.location}: "type" is {sanitize(wanted[:40], keep_newlines=False)!r}.',
                'Use "stdio", "http" or "sse".',
            )
        if (wanted == "stdio") == bool(url):
            raise ConfigError(
                f'{self.location}: "type" is "{wanted}" but it has a "{"url" if url else "command"}".',
                "Make them agree.",
            )
        return _TRANSPORTS[wanted]

    def _parse_era(self, own: dict[str, Any]) -> Any:
        era = own.get("era", "auto")
        if era not in _ERAS:
            raise ConfigError(
                f'{self.location}: "mcphost.era" is not one of auto, stateless, handshake.', "Choose one."
            )
        return era

    def _parse_revision(self, own: dict[str, Any]) -> Revision | None:
        wanted = own.get("revision")
        if wanted is None:
            return None
        revision = parse_revision(wanted) if isinstance(wanted, str) else None
        if revision is None:
            raise ConfigError(
                f'{self.location}: "mcphost.revision" is not one of {", ".join(one.value for one in Revision)}.',
                "Choose one.",
            )
        if self._parse_era(own) not in ("auto", revision.era):
            raise ConfigError(
                f'{self.location}: "mcphost.revision" is {revision.value}, which is not of the era in "mcphost.era".',
                "Remove one of them.",
            )
        return revision

    def _parse_timeout(self, own: dict[str, Any]) -> float | None:
        value = own.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86_400:
            raise ConfigError(
                f'{self.location}: "mcphost.timeout" is not a number of seconds above 0.', "Write 120, say."
            )
        return float(value)

    def _parse_ca_file(self, own: dict[str, Any], url: str) -> str:
        value = own.get("caFile", "")
        if not isinstance(value, str) or "\0" in value:
            raise ConfigError(
                f'{self.location}: "mcphost.caFile" is {describe_type(value)}, not a path.', "Put it in quotes."
            )
        if value and not url:
            raise ConfigError(f'{self.location}: "mcphost.caFile" is for servers with a "url".', "Remove it.")
        return os.path.join(os.path.dirname(os.path.abspath(self.file)), _expand_home(value)) if value else ""

    def _parse_log_level(self, own: dict[str, Any]) -> str:
        level = own.get("logLevel", "")
        if level not in ("", *LEVELS):
            raise ConfigError(f'{self.location}: "mcphost.logLevel" is not one of {", ".join(LEVELS)}.', "Choose one.")
        return level

    def _parse_trust_annotations(self, own: dict[str, Any]) -> bool:
        """Whether claims of the server count; whoever wrote a folder's file cannot vouch for its own servers."""
        wanted = self._get_flag(own, "trustAnnotations")
        if wanted and self.source != "user":
            self.on_problem(
                f'{self.location}: "mcphost.trustAnnotations" counts only in your own mcp.json; '
                "its tools are asked about."
            )
        return wanted and self.source == "user"

    def _parse_headers(self) -> dict[str, str]:
        headers = self._get_pairs("headers")
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or any(char in value for char in "\r\n\0"):
                shown = sanitize(name[:60], keep_newlines=False)
                raise ConfigError(f"{self.location}: the header {shown!r} cannot be sent.", "Check its name and value.")
        return headers

    def _get_text(self, key: str) -> str:
        value = self.entry.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f'{self.location}: "{key}" is {describe_type(value)}, not text.', "Put it in quotes.")
        return value.strip() if key in {"command", "url"} else value

    def _get_flag(self, table: dict[str, Any], key: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            raise ConfigError(
                f'{self.location}: "{key}" is {describe_type(value)}, not true or false.', "Write true or false."
            )
        return value

    def _get_texts(self, key: str, table: dict[str, Any] | None = None) -> tuple[str, ...]:
        value = (self.entry if table is None else table).get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise ConfigError(
                f'{self.location}: "{key}" is {describe_type(value)}, not a list of texts.', 'Write ["…", "…"].'
            )
        for number, member in enumerate(cast("list[Any]", value), 1):
            if not isinstance(member, str):
                raise ConfigError(
                    f'{self.location}: "{key}" number {number} is {describe_type(member)}.', "Put it in quotes."
                )
        return tuple(cast("list[str]", value))

    def _get_pairs(self, key: str) -> dict[str, str]:
        value = self.entry.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigError(
                f'{self.location}: "{key}" is {describe_type(value)}, not an object.', 'Write {"NAME": "value"}.'
            )
        if len(cast("dict[str, Any]", value)) > _MAX_PAIRS:
            raise ConfigError(f'{self.location}: "{key}" has more than {_MAX_PAIRS} entries.', "Remove some.")
        pairs: dict[str, str] = {}
        for name, written in cast("dict[str, Any]", value).items():
            shown = sanitize(name[:60], keep_newlines=False)
            number = isinstance(written, int | float) and not isinstance(written, bool)
            content = str(cast("object", written)) if number else written
            if not isinstance(content, str):
                raise ConfigError(
                    f'{self.location}: "{key}.{shown}" is {describe_type(content)}, not text.', "Put it in quotes."
                )
            if not name or "=" in name or "\0" in name + content:
                raise ConfigError(f'{self.location}: "{key}" has a name or value of no use: {shown!r}.', "Correct it.")
            self._check_value(key, shown, content)
            pairs[name] = content
        return pairs

    def _check_value(self, key: str, name: str, content: str) -> None:
        """Say what is odd about a value, without ever showing it."""
        for reference in _REFERENCE.findall(content):
            if not reference.startswith(("env:", "keyring:")):
                shown = sanitize(reference, keep_newlines=False)
                self.on_problem(
                    f'{self.location}: "{key}.{name}" has ${{{shown}}}, which is passed on as it stands. '
                    "Only ${env:NAME} and ${keyring:NAME} are filled in."
                )
        if is_probable_secret(name, content):
            self._warn_about_secret(f"{key}.{name}", f"${{env:{_variable_name(name)}}} or ${{keyring:NAME}}")

    def _warn_about_secret(self, where: str, instead: str) -> None:
        move = f" To move it to the keyring: mcphost servers secure {quote(self.name)}" if self.source == "user" else ""
        self.on_problem(
            f'{self.location}: "{where}" looks like a secret in plain text{self._describe_mode()}. '
            f"It works; {instead} keeps it out of the file.{move}"
        )

    def _describe_mode(self) -> str:
        try:
            mode = Path(self.file).stat().st_mode & 0o777
        except OSError:
            return ""
        return f", and others can read the file (mode {mode:04o})" if mode & 0o077 else ""


def _is_in_workspace(cwd: str) -> bool:
    """Whether that folder is below the one mcphost was started in, by its name."""
    return cwd == WORKSPACE_FOLDER or cwd.startswith(f"{WORKSPACE_FOLDER}/")


def _uses_workspace(env: dict[str, str]) -> bool:
    """Whether a variable is filled with the folder mcphost was started in."""
    return any(_WORKSPACE_REFERENCE.search(text) for text in env.values())


def _variable_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return plain or "NAME"


def _expand_home(path: str) -> str:
    """`~` and `~/…` as the shell would; everything else as it is."""
    return str(Path(path).expanduser()) if path == "~" or path.startswith("~/") else path
