"""Parser that converts `mcpServers`, the format of Claude Desktop, Cursor and VS Code, to ServerConfig values.

An invalid entry is reported and skipped. Unknown keys are ignored, because other hosts add their own.
"""

import os
import re
from collections.abc import Iterable
from shlex import quote
from typing import Annotated, Any, Literal, cast

from mcphost.config.entry_keys import (
    describe_mode,
    describe_unknown_keys,
    is_whole_command_line,
    warn_about_arguments,
    warn_about_keys,
)
from mcphost.config.entry_limits import ProjectBudget, without_transport_headers
from mcphost.config.json_files import DuplicateKeyDict, describe_type
from mcphost.config.oauth_settings import FIELD_BY_KEY, SECRET_FIELDS, parse_oauth
from mcphost.config.published_values import read_published
from mcphost.config.rules import RESERVED_SERVER_NAMES
from mcphost.config.schema import (
    SAMPLING_FIELD_BY_KEY,
    ConfigWarning,
    Meta,
    OAuthConfig,
    ProblemCallback,
    RootConfig,
    SamplingLimits,
    ServerConfig,
    ServerInput,
    Source,
)
from mcphost.config.server_inputs import attach_inputs, parse_inputs, referenced_inputs
from mcphost.config.settings import WORKSPACE_FOLDER, parse_roots
from mcphost.config.target_secrets import find_target_secrets
from mcphost.config.value_conversion import InvalidValue, convert_value, settable_fields
from mcphost.config.variable_references import (
    INPUT_HINT,
    Reference,
    check_address,
    check_secret_place,
    expand_home,
    find_references,
    has_nested_reference,
    is_host_variable,
    may_have_secrets,
    nested_reference_error,
    resolve_folder,
    uses_workspace,
)
from mcphost.errors import ConfigError
from mcphost.protocol.notifications import LEVELS
from mcphost.protocol.revisions import Revision, parse_revision
from mcphost.redact import is_probable_secret, redact_patterns
from mcphost.sanitize import quote_text, sanitize, sanitize_line
from mcphost.serialization import as_object, replace
from mcphost.unicode_forms import normalize

TRANSPORTS: dict[str, Literal["auto", "streamable-http", "sse"]] = {
    "http": "auto",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
    "stdio": "auto",
}
_MAX_NAME_LENGTH = 128
_MAX_SERVERS = 1000
_MAX_DISABLED_TOOLS = 1000
_MAX_WATCHED_PATTERNS = 20
_MAX_PAIRS = 500
"""Maximum number of environment variables or headers of one server."""
OWN_KEY = "mcphost"
_MAX_SHOWN_REFERENCE = 200
_MAX_UNDEFINED_INPUTS = 20
"""Maximum number of undefined inputs that are reported for one server."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_Era = Literal["auto", "stateless", "handshake"]
_LogLevel = Literal["", *LEVELS]
_Texts = tuple[str, ...] | None
_Timeout = Annotated[float, Meta(gt=0, le=86_400)] | None


def parse_servers(document: Any, file: str, source: Source, on_problem: ProblemCallback) -> tuple[ServerConfig, ...]:
    """Return the valid servers in a parsed mcp.json, in the order of the file.

    *source* is the kind of file, such as "user" or "project". For each invalid entry, *on_problem* is called
    with a sentence that describes the problem. Raises ConfigError if the document or its `mcpServers` is not an
    object.
    """
    if not isinstance(document, dict):
        raise ConfigError(
            f"{file}: the file contains {describe_type(document)}, not an object.",
            'It should start like {"mcpServers": {…}}.',
        )
    members = cast("dict[str, Any]", document)
    key = next((key for key in ("mcpServers", "servers") if key in members), None)
    if isinstance(document, DuplicateKeyDict) and key in document.duplicate_keys:
        on_problem(f'{file}: it has the key "{key}" twice; only the first one takes effect. Merge them.')
    if key is None:
        if set(members) - {OWN_KEY}:
            on_problem(f'{file}: there is no "mcpServers" in it, so it names no server. Add {{"mcpServers": {{…}}}}.')
        return ()
    entries = members[key]
    if not isinstance(entries, dict):
        raise ConfigError(
            f'{file}: "{key}" is {describe_type(entries)}, not an object.',
            "It must map each server's name to its settings.",
        )
    if isinstance(entries, DuplicateKeyDict):
        for name in entries.duplicate_keys:
            on_problem(
                f"{_entry_location(file, name)}: there are two servers of this name; only the first one takes "
                "effect. Rename one."
            )
    servers = list(cast("dict[str, Any]", entries).items())
    if len(servers) > _MAX_SERVERS:
        on_problem(f"{file}: it has {len(servers):,} servers; only the first {_MAX_SERVERS:,} are read.")
    definitions = parse_inputs(members.get("inputs"), file, on_problem, is_shared=True)
    configs: list[ServerConfig] = []
    budget = ProjectBudget(source)
    for name, entry in servers[:_MAX_SERVERS]:
        location = _entry_location(file, name)
        try:
            has_references = budget.count_references(entry, location) > 0
            config = _ServerEntry(
                name, entry, file, source, on_problem, definitions if has_references else None
            ).build()
            budget.count_arguments(config, location)
            warn_about_arguments(config, location, on_problem)
            configs.append(config)
        except ConfigError as error:
            on_problem(str(error))
    return tuple(configs)


def parse_file_roots(document: Any, file: str, source: Source, on_problem: ProblemCallback) -> tuple[RootConfig, ...]:
    """Return the shared folders (`mcphost.roots`) that *document*, a parsed mcp.json, configures.

    Shared folders can be configured in a project's `.mcp.json` or a `--mcp-config` file. *source* is the kind
    of file. If it is "user", the folders are reported to *on_problem* and ignored, because the user's own
    shared folders belong in config.toml.
    """
    own = as_object(document).get(OWN_KEY)
    if not isinstance(own, dict):
        return ()
    for text in describe_unknown_keys(cast("dict[str, Any]", own), ("roots",)):
        on_problem(ConfigWarning(f"{file}: {text}"))
    if "roots" not in own:
        return ()
    if source == "user":
        on_problem(f'{file}: "{OWN_KEY}.roots" belongs in config.toml, as roots = […]; it is not used here.')
        return ()
    return parse_roots(cast("dict[str, Any]", own)["roots"], file, source, on_problem)


def _entry_location(file: str, name: str) -> str:
    return f"{file}: {entry_mark(name)}"


def entry_mark(name: str) -> str:
    """Return the text that names the entry *name* in descriptions of its problems; a long name is shortened."""
    return f'server "{sanitize_line(name, _MAX_NAME_LENGTH)}"'


class _ServerEntry:
    """Parser for one entry of `mcpServers`; its errors (ConfigError) name the file, the server, the key and the fix."""

    def __init__(
        self,
        name: str,
        entry: Any,
        file: str,
        source: Source,
        on_problem: ProblemCallback,
        definitions: dict[str, ServerInput] | None,
    ) -> None:
        """Create a parser for one server's entry.

        *source* is the kind of file that contains the entry. *definitions* are the inputs (`${input:ID}`) defined
        for the whole file, keyed by id; None means that the entry contains no `${…}` references at all. Raises
        ConfigError if the entry is not an object.
        """
        self.name, self.file, self.on_problem = name, file, on_problem
        self.definitions = definitions or {}
        self.has_references = definitions is not None
        self.source: Source = source
        self.location = _entry_location(file, name)
        if not isinstance(entry, dict):
            raise ConfigError(
                f"{self.location} is {describe_type(entry)}, not an object.", 'Add a "command" or a "url".'
            )
        self.entry = cast("dict[str, Any]", entry)

    def build(self) -> ServerConfig:
        """Validate the entry and convert it to a ServerConfig. Raises ConfigError."""
        self._check_name()
        own = self._read_own()
        warn_about_keys(self.entry, own, self.source, self.location, self.on_problem)
        command, url = self._get_text("command"), self._get_text("url")
        if bool(command) == bool(url):
            what = 'both "command" and "url"' if command else 'neither "command" nor "url"'
            raise ConfigError(f"{self.location} has {what}.", "A server has either a command or a URL.")
        if command:
            self._check_command(command)
        else:
            self._check_url(url)
        cwd, env_file = self._get_text("cwd"), self._parse_env_file(url)
        oauth = self._parse_oauth(own)
        for key in (key for key, field in FIELD_BY_KEY.items() if field in SECRET_FIELDS):
            if (secret := str(getattr(oauth, FIELD_BY_KEY[key]))) and "${" not in secret:
                self._warn_about_secret(f"mcphost.oauth.{key}", "${env:NAME} or ${keyring:NAME}")
        args, env = self._get_texts("args"), self._get_pairs("env")
        headers = self._parse_headers()
        texts: tuple[str, ...] = ()
        if self.has_references:
            keys = ("command", "url", "cwd", "envFile", *(f"args[{number}]" for number in range(len(args))))
            for key, text in zip(keys, (command, url, cwd, env_file, *args), strict=True):
                self._check_target(key, text)
            secrets = (str(getattr(oauth, field)) for field in SECRET_FIELDS)
            texts = (command, *args, cwd, env_file, url, *env.values(), *headers.values(), *secrets)
        watched_files = self._parse_watched_files() if command else ()
        return ServerConfig(
            name=self.name,
            command=expand_home(command),
            args=args,
            env=env,
            env_file=env_file,
            cwd=self._resolve_cwd(cwd) if command else expand_home(cwd),
            cwd_has_references=self.has_references and bool(command) and _is_open(cwd),
            startup_folder=os.getcwd() if command and uses_workspace(texts) else "",
            url=url,
            transport=self._parse_transport(url),
            headers=headers,
            published=self.published,
            inputs=self._find_inputs(texts),
            oauth=oauth,
            era=self._get_own("era", _Era, "auto"),
            revision=self._parse_revision(),
            disabled=self._get_own("disabled", bool, False) or self._get("disabled", bool, False),
            timeout=self._get_own("timeout", _Timeout, None),
            ca_file=self._parse_ca_file(url),
            log_level=self._get_own("logLevel", _LogLevel, ""),
            trust_annotations=self._parse_trust_annotations(),
            disabled_tools=(*self._get_texts("disabledTools"), *(self._get_own("disabledTools", _Texts, ()) or ()))[
                :_MAX_DISABLED_TOOLS
            ],
            review_results=self._get_own("reviewResults", bool, False),
            watched_files=watched_files,
            watched_folder=self._watched_folder(cwd) if watched_files else "",
            has_own_watch=bool(watched_files) and self.source == "user" and bool(own.get("watch")),
            sampling_limits=parse_sampling(own.get("sampling"), self.location, self.source, self.on_problem),
            source=self.source, file=self.file,
        )  # fmt: skip

    def _parse_watched_files(self) -> tuple[str, ...]:
        """Return the file patterns in `mcphost.watch` and in `dev.watch`, the key that VS Code uses."""
        of_vs_code = as_object(self.entry.get("dev")).get("watch")
        own = self._get_own("watch", _Texts, ()) or ()
        return (*own, *([of_vs_code] if isinstance(of_vs_code, str) else []))[:_MAX_WATCHED_PATTERNS]

    def _watched_folder(self, cwd: str) -> str:
        folder = self._resolve_cwd(cwd)
        return folder if folder and not _is_open(folder) else os.path.dirname(os.path.abspath(self.file))

    def _read_own(self) -> dict[str, Any]:
        """Return the entry's "mcphost" object, and add the inputs that it defines to `definitions`.

        Raises ConfigError.
        """
        own = self.entry.get(OWN_KEY, {})
        if not isinstance(own, dict):
            raise ConfigError(
                f'{self.location}: "mcphost" is {describe_type(own)}, not an object.', "Correct or remove it."
            )
        self.own = cast("dict[str, Any]", own)
        self.published = read_published(self.own)
        inputs = parse_inputs(self.own.get("inputs"), self.location, self.on_problem, is_shared=False)
        self.definitions = {**self.definitions, **inputs}
        return self.own

    def _resolve_cwd(self, cwd: str) -> str:
        """Return the absolute working directory: *cwd* resolved against the folder of the configuration file.

        An empty *cwd* means that folder, not the folder in which mcphost was started: programs such as npx and
        `python -m` look up names in their working directory, where an untrusted folder could contain other programs
        with these names. To use the folder in which mcphost was started, the entry must say `${workspaceFolder}`.
        Its server is approved for each folder separately.

        Symbolic links are resolved, so that a changed link needs a new approval. If *cwd* contains other
        references, it is returned unchanged and resolved when the server starts.
        """
        if "\0" in cwd:
            raise ConfigError(f'{self.location}: "cwd" has a NUL character in it.', "Remove it.")
        if _is_open(cwd):
            return cwd
        if _is_in_workspace(cwd):
            return os.path.realpath(os.path.join(os.getcwd(), cwd[len(WORKSPACE_FOLDER) :].lstrip("/")))
        return resolve_folder(self.file, expand_home(cwd))

    def _parse_oauth(self, own: dict[str, Any]) -> OAuthConfig:
        """Parse the sign-in settings in *own*, the entry's "mcphost" object.

        Outside the user's own file, `private` and `resource` are reported and ignored.
        """
        oauth = parse_oauth(own.get("oauth"), self.location)
        widening = [name for name in ("private", "resource") if getattr(oauth, name)]
        if self.source == "user" or not widening:
            return oauth
        for name in widening:
            self.on_problem(
                f'{self.location}: "mcphost.oauth.{name}" is ignored: it applies only in your own mcp.json.'
            )
        return replace(oauth, private=False, resource="")

    def _check_name(self) -> None:
        if not self.name or self.name != self.name.strip() or sanitize(self.name, keep_newlines=False) != self.name:
            raise ConfigError(
                f"{self.location}: the name is empty or has invisible characters.", "Choose a plain name."
            )
        if odd := next((sign for sign in self.name if sign.isspace() and sign != " "), ""):
            raise ConfigError(
                f"{self.location}: the name has white space other than a plain space (U+{ord(odd):04X}).",
                "Use a plain space there.",
            )
        if len(self.name) > _MAX_NAME_LENGTH:
            raise ConfigError(f"{self.location}: the name is over {_MAX_NAME_LENGTH} characters.", "Shorten it.")
        if self.name.startswith(("-", "/")):
            raise ConfigError(f"{self.location}: a name cannot begin with a dash or a slash.", "Rename it.")
        if normalize("NFKC", self.name).casefold() in RESERVED_SERVER_NAMES:
            raise ConfigError(f"{self.location}: the name has a meaning of its own in rules.", "Rename it.")

    def _check_command(self, command: str) -> None:
        if "\0" in command or any("\0" in text for text in self._get_texts("args")):
            raise ConfigError(f"{self.location}: the command has a NUL character in it.", "Remove it.")
        if is_whole_command_line(command, bool(self.entry.get("args"))):
            command = redact_patterns(command)
            program, *rest = sanitize(command, keep_newlines=False).split()
            text = (
                f'{self.location}: "command" is one program, without its arguments; {command!r} will not be found. '
                f'Write "command": "{program}", "args": {rest!r}.'.replace("'", '"')
            )
            self.on_problem(ConfigWarning(text))

    def _check_url(self, url: str) -> None:
        """Check the URL of a server, and report a plaintext secret in the URL. Raises ConfigError."""
        if not find_references(url):  # a URL with references is checked after expansion
            check_address(url, self.location)
        if find_target_secrets(ServerConfig(name=self.name, url=url)):
            can_refer = may_have_secrets(self.source, "url")
            self._warn_about_secret("url", "${env:NAME} or ${keyring:NAME}" if can_refer else "${env:NAME}")

    def _check_target(self, key: str, text: str) -> None:
        """Check the references in *text*, a setting that determines which program is started or which URL is used.

        Raises ConfigError for a nested reference, or a reference to a secret where none is allowed.
        """
        where = f'{self.location}: "{key}"'
        if has_nested_reference(text):
            raise nested_reference_error(where)
        for reference in find_references(text):
            definition = self.definitions.get(reference.name) if reference.kind == "input" else None
            if reference.kind == "keyring" or (definition is not None and definition.password):
                check_secret_place(self.source, key, text, reference, where)
            if is_host_variable(reference):
                self._report_unknown(key, reference)

    def _parse_transport(self, url: str) -> Literal["auto", "streamable-http", "sse"]:
        transport = self._get_text("type") or self._get_text("transport")
        if not transport:
            return "auto"
        if transport not in TRANSPORTS:
            raise ConfigError(
                f'{self.location}: "type" is {quote_text(transport, 40)}.',
                'Use "stdio", "http" or "sse".',
            )
        if (transport == "stdio") == bool(url):
            raise ConfigError(
                f'{self.location}: "type" is "{transport}" but it has a "{"url" if url else "command"}".',
                "Make them match.",
            )
        return TRANSPORTS[transport]

    def _parse_revision(self) -> Revision | None:
        text = self.own.get("revision")
        if text is None:
            return None
        revision = parse_revision(text) if isinstance(text, str) else None
        if revision is None:
            known = ", ".join(revision.value for revision in Revision)
            raise ConfigError(f'{self.location}: "mcphost.revision" is not one of {known}.', "Choose one.")
        if self.own.get("era", "auto") not in ("auto", revision.era):
            raise ConfigError(
                f'{self.location}: "mcphost.revision" is {revision.value}, which is not of the era in "mcphost.era".',
                "Remove one of them.",
            )
        return revision

    def _find_inputs(self, texts: Iterable[str]) -> tuple[ServerInput, ...]:
        """Return the definitions of the inputs that *texts* refer to; report inputs that are not defined."""
        ids = referenced_inputs(texts)
        for input_id in [one for one in ids if one not in self.definitions][:_MAX_UNDEFINED_INPUTS]:
            shown = sanitize(input_id, keep_newlines=False)
            self.on_problem(f"{self.location} has ${{input:{shown}}}, and no such input is defined. {INPUT_HINT}")
        return tuple(attach_inputs(self.definitions, self.file, self.name, ids))

    def _parse_env_file(self, url: str) -> str:
        path = self._get_text("envFile")
        if "\0" in path:
            raise ConfigError(f'{self.location}: "envFile" has a NUL character in it.', "Remove it.")
        if path and url:
            self.on_problem(f'{self.location}: "envFile" is for servers with a "command"; it is not used.')
            return ""
        return path

    def _parse_ca_file(self, url: str) -> str:
        path: str = self._get_own("caFile", str, "")
        if "\0" in path:
            raise ConfigError(f'{self.location}: "mcphost.caFile" has a NUL character in it.', "Remove it.")
        if path and not url:
            raise ConfigError(f'{self.location}: "mcphost.caFile" is for servers with a "url".', "Remove it.")
        return os.path.join(os.path.dirname(os.path.abspath(self.file)), expand_home(path)) if path else ""

    def _parse_trust_annotations(self) -> bool:
        """Return whether the server's tool annotations are trusted; only the user's own file can set this."""
        is_trusted: bool = self._get_own("trustAnnotations", bool, False)
        if is_trusted and self.source != "user":
            self.on_problem(
                f'{self.location}: "mcphost.trustAnnotations" applies only in your own mcp.json; its tools '
                "are asked about."
            )
        return is_trusted and self.source == "user"

    def _parse_headers(self) -> dict[str, str]:
        headers = without_transport_headers(self._get_pairs("headers"), self.location, self.on_problem)
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or any(char in value for char in "\r\n\0"):
                shown = sanitize_line(name, 60)
                raise ConfigError(f"{self.location}: the header {shown!r} cannot be sent.", "Check its name and value.")
        return headers

    def _get(self, key: str, kind: Any, default: Any) -> Any:
        """Return the value for *key*, converted to *kind*, or *default* if it is missing. Raises ConfigError."""
        return self._convert(self.entry, key, key, kind, default)

    def _get_own(self, key: str, kind: Any, default: Any) -> Any:
        """Return the value for *key* in the "mcphost" object, or *default*; see `_get`. Raises ConfigError."""
        return self._convert(self.own, key, f"{OWN_KEY}.{key}", kind, default)

    def _convert(self, table: dict[str, Any], key: str, path: str, kind: Any, default: Any) -> Any:
        try:
            value = convert_value(table[key], kind) if key in table else default
        except InvalidValue as error:
            raise ConfigError(f'{self.location}: "{path}" {error}.', "Correct it.") from error
        self._check_encoding(path, value)
        return value

    def _check_encoding(self, path: str, *values: object) -> None:
        """Raise ConfigError if any of *values*, which may be tuples of strings, contains an unpaired surrogate.

        An unpaired surrogate cannot be passed in an argument, path or header. The surrogates that stand for
        undecodable bytes (PEP 383) are allowed.
        """
        try:
            for value in values:
                for text in cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,):
                    if isinstance(text, str):
                        text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise ConfigError(f'{self.location}: "{path}" has half of a surrogate pair.', "Correct it.") from error

    def _get_text(self, key: str) -> str:
        text: str = self._get(key, str | None, "") or ""
        return text.strip() if key in {"command", "url"} else text

    def _get_texts(self, key: str) -> tuple[str, ...]:
        return self._get(key, _Texts, ()) or ()

    def _get_pairs(self, key: str) -> dict[str, str]:
        # Not with msgspec, whose errors do not name the key of a wrong value in a mapping.
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
        for name, member in cast("dict[str, Any]", value).items():
            shown = sanitize_line(name, 60)
            is_number = isinstance(member, int | float) and not isinstance(member, bool)
            content = str(cast("object", member)) if is_number else member
            if not isinstance(content, str):
                raise ConfigError(
                    f'{self.location}: "{key}.{shown}" is {describe_type(content)}, not text.', "Put it in quotes."
                )
            if not name or "=" in name or "\0" in name + content:
                raise ConfigError(f'{self.location}: "{key}" has an unusable name or value: {shown!r}.', "Correct it.")
            self._check_encoding(f"{key}.{shown}", name, content)
            self._check_value(key, shown, content)
            pairs[name] = content
        return pairs

    def _check_value(self, key: str, name: str, content: str) -> None:
        """Report unsupported references and probable plaintext secrets in a value, without quoting the value.

        *key* is the section, such as "env", *name* is the name of the variable or header, and *content* is its value.
        Raises ConfigError for a nested reference.
        """
        if has_nested_reference(content):
            raise nested_reference_error(f'{self.location}: "{key}.{name}"')
        for reference in find_references(content):
            if reference.kind == "unknown":
                self._report_unknown(f"{key}.{name}", reference)
            if reference.default and is_probable_secret(name, reference.default):
                self._warn_about_secret(f"{key}.{name}", "a reference without a default", can_move=False)
        if is_probable_secret(name, content) and not self.published.has(key, name, content):
            self._warn_about_secret(f"{key}.{name}", f"${{env:{_variable_name(name)}}} or ${{keyring:NAME}}")

    def _report_unknown(self, where: str, reference: Reference) -> None:
        shown = sanitize_line(reference.text, _MAX_SHOWN_REFERENCE)
        text = (
            f'{self.location}: "{where}" has {shown}, which is passed on unchanged. '
            "Only ${NAME}, ${env:NAME}, ${keyring:NAME}, ${input:ID}, ${workspaceFolder} and ${userHome} are filled in."
        )
        self.on_problem(ConfigWarning(text))

    def _warn_about_secret(self, where: str, instead: str, *, can_move: bool = True) -> None:
        command = f"mcphost servers secure {quote(self.name)}"
        move = f" To move it to the keyring: {command}" if can_move and self.source == "user" else ""
        text = (
            f'{self.location}: "{where}" looks like a secret in plain text{describe_mode(self.file)}. '
            f"It works; {instead} keeps it out of the file.{move}"
        )
        self.on_problem(ConfigWarning(text))


def parse_sampling(value: Any, location: str, source: Source, on_problem: ProblemCallback) -> dict[str, int]:
    """Parse `mcphost.sampling`; return the limits, keyed by the field names of SamplingLimits.

    *location* names the file and the server. Invalid limits are reported to *on_problem* and skipped. If
    *source* is "project", all limits are ignored, and this is reported.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        on_problem(f'{location}: "mcphost.sampling" is {describe_type(value)}, not an object; it is not used.')
        return {}
    members = cast("dict[str, Any]", value)
    if members and source == "project":
        on_problem(f'{location}: "mcphost.sampling" applies only in your own mcp.json; the usual limits apply.')
        return {}
    fields, limits = settable_fields(SamplingLimits), dict[str, int]()
    for key, member in members.items():
        if key not in SAMPLING_FIELD_BY_KEY:
            shown = sanitize_line(key, 60)
            known = ", ".join(SAMPLING_FIELD_BY_KEY)
            on_problem(ConfigWarning(f'{location}: "mcphost.sampling.{shown}" is unknown. Known keys: {known}.'))
            continue
        try:
            limits[SAMPLING_FIELD_BY_KEY[key]] = convert_value(member, fields[SAMPLING_FIELD_BY_KEY[key]].type)
        except InvalidValue as error:
            on_problem(f'{location}: "mcphost.sampling.{key}" {error}; the usual limit applies.')
    return limits


def _is_open(cwd: str) -> bool:
    """Return whether the working directory *cwd* is unknown until the server starts.

    It is unknown if *cwd* contains any reference other than a leading `${workspaceFolder}`.
    """
    return bool(find_references(cwd.removeprefix(WORKSPACE_FOLDER) if _is_in_workspace(cwd) else cwd))


def _is_in_workspace(cwd: str) -> bool:
    """Return whether a path is `${workspaceFolder}` or begins with `${workspaceFolder}/`."""
    return cwd == WORKSPACE_FOLDER or cwd.startswith(f"{WORKSPACE_FOLDER}/")


def _variable_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return plain or "NAME"
