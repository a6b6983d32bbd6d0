"""The configuration as immutable structs whose types and bounds are used to validate files."""

from typing import Annotated, Any, Literal, cast, get_args

import msgspec
from msgspec import Meta

from mcphost.config.json_files import describe_type
from mcphost.config.rules import Rule
from mcphost.protocol.revisions import Era, Revision
from mcphost.serialization import Struct

__all__ = ["InvalidValue", "Meta", "convert_value", "settable_fields"]


class InvalidValue(Exception):
    """A value that does not fit its type; the message is a predicate such as "is text, not a number"."""


def convert_value(value: Any, kind: Any) -> Any:
    """Validate *value* against the type *kind*, whose `Meta` may set bounds, and return it. Raises InvalidValue.

    Values are not coerced, except lists to tuples and integers to floats.
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidValue(_explain(value, kind, str(error))) from error


def settable_fields(kind: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of a struct by their key in configuration files."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def build_json_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a field's type; the type contains no struct."""
    return msgspec.json.schema(kind)


def _explain(value: Any, kind: Any, reason: str) -> str:
    info = msgspec.inspect.type_info(kind)
    if isinstance(info, msgspec.inspect.LiteralType):
        return f"is not one of {', '.join(filter(None, get_args(kind)))}"  # msgspec would sort them
    if isinstance(info, msgspec.inspect.UnionType):  # an optional value: null needs no explanation
        info = next(member for member in info.types if not isinstance(member, msgspec.inspect.NoneType))
    if ", got " in reason:
        if isinstance(info, msgspec.inspect.VarTupleType) and isinstance(value, list):
            place = int(reason.rpartition("$[")[2].partition("]")[0])
            item = cast("list[Any]", value)[place]
            return f"number {place + 1} is {describe_type(item)}, not {_describe(info.item_type)}"
        return f"is {describe_type(value)}, not {_describe(info)}"
    if isinstance(info, msgspec.inspect.StrType):
        return f"is over {info.max_length} characters"
    if isinstance(info, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        if info.gt is not None:
            return f"is not above {info.gt:g} and at most {info.le:g}"
        return f"is not between {info.ge:g} and {info.le:g}"
    return "is not valid"


def _describe(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.StrType():
            return "text in quotes"
        case msgspec.inspect.IntType():
            return "a whole number"
        case msgspec.inspect.FloatType():
            return "a number"
        case msgspec.inspect.VarTupleType():
            return "a list of text"
        case _:
            return "an object"


_Count = Annotated[int, Meta(ge=0, le=10**9)]
_Seconds = Annotated[float, Meta(ge=0.1, le=86_400)]
ModelApi = Literal["auto", "chat", "responses"]
ToolUse = Literal["auto", "always", "never"]
"""Whether a model is offered tools; "auto" offers them until its provider refuses them."""

OAuthGrant = Literal["person", "client_credentials", "enterprise", "workload"]
Source = Literal["user", "project", "flag", "demo"]
RootSource = Literal["started", "user", "project", "flag", "demo", "added"]
SecretStore = Literal["", "keyring", "file", "encrypted", "session"]
"""Where sign-ins are stored; "" means in the keyring, and the user is asked if there is none."""


class OAuthConfig(Struct, frozen=True, kw_only=True):
    """OAuth settings of a server; empty ones are discovered or have a default.

    `client_secret`, `key`, `assertion` and `idp_token` may contain references such as `${keyring:NAME}`.
    """

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    """Authorization server of the client id, which is sent to no other."""

    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """Loopback port of the registered redirect URI; 0 means any."""

    client_metadata_url: str = ""
    """URL of a published client metadata document for mcphost."""

    account: str = ""
    seconds: float = 0
    """Time limit for the user to sign in, 1 to 3600; 0 means the default."""

    private: bool = False
    """Whether the authorization server may be at a private address although the MCP server is not."""

    grant: OAuthGrant = "person"
    scopes: tuple[str, ...] = ()
    """Scopes to request, for grants without a user, if the server names none."""

    key: str = ""
    algorithm: str = "ES256"
    assertion: str = ""
    idp_token: str = ""
    idp_client_id: str = ""
    idp_token_endpoint: str = ""

    def __repr__(self) -> str:
        return f"OAuthConfig({self.grant!r})"


class ServerInput(Struct, frozen=True, kw_only=True):
    """A value that a server's entry asks the user for, as `${input:ID}`; with `options`, one of them.

    A password is in the keyring as `keyring_entry`; another one is `stored_value`, None if not set yet.
    """

    id: str
    description: str = ""
    password: bool = False
    options: tuple[str, ...] = ()
    default: str = ""
    """What is proposed when the user is asked; it is not used without being asked."""

    is_shared: bool = False
    """Whether it is defined for all servers of the file."""

    keyring_entry: str = ""
    stored_value: str | None = None

    def __repr__(self) -> str:
        return f"ServerInput({self.id!r})"


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Configuration of one server: either `command` is set (stdio) or `url` (HTTP).

    `command`, `args`, `cwd`, `url` and the values of `env` and `headers` may contain references, which are expanded
    when connecting; see config.references.
    If `revision` is set, only this protocol revision is used; `era` is then the revision's era or "auto".
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    env_file: str = ""
    """Path of a file with more variables, as written; `env` comes before it. See config.env_file."""

    env_file_digest: str = ""
    """Slow digest of the approved content of `env_file`."""

    env_file_names: tuple[str, ...] = ()
    """Names of the variables in that content."""

    cwd: str = ""
    cwd_has_references: bool = False
    """Whether `cwd` is as written, with references; else it is an absolute path, or empty."""

    inputs: tuple[ServerInput, ...] = ()
    """The inputs that the entry refers to, with their values as far as these are set and no passwords."""

    startup_folder: str = ""
    """The folder mcphost was started in if the server depends on it, else ""."""

    url: str = ""
    transport: Literal["auto", "streamable-http", "sse"] = "auto"
    headers: dict[str, str] = {}  # noqa: RUF012
    oauth: OAuthConfig = OAuthConfig()
    era: Era | Literal["auto"] = "auto"
    revision: Revision | None = None
    disabled: bool = False
    excluded_by: str = ""
    """Name of the profile in use if the server is disabled because that profile does not list it."""

    timeout: float | None = None
    ca_file: str = ""
    ca_digest: str = ""
    """SHA-256 (hex) of the approved content of `ca_file`."""

    trust_annotations: bool = False
    """Whether tools that the server declares read-only run without asking; only the user's own file can set it."""

    disabled_tools: tuple[str, ...] = ()
    """Names of tools, or patterns with `*`, that the model does not see."""

    review_results: bool = False
    """Whether the user reviews every result of this server before the model gets it."""

    log_level: str = ""
    """Minimum severity of requested log messages (protocol.logging.LEVELS); empty requests none."""

    watched_files: tuple[str, ...] = ()
    """Patterns of files that restart the server when they change, relative to `watched_folder`."""

    watched_folder: str = ""
    matching_servers: tuple[str, ...] = ()
    """The user's servers that this project entry also leads to; their restrictions are applied to it."""

    never_rules: tuple[str, ...] = ()
    """Never-rules of `matching_servers` as text; they are also in `HostConfig.never_rules`."""

    sampling_limits: dict[str, int] = {}  # noqa: RUF012
    """Fields of SamplingLimits with another value for this server; only the user's own file can raise one."""

    source: Source = "user"
    file: str = ""

    def __repr__(self) -> str:
        return f"ServerConfig({self.name!r})"

    @property
    def is_stdio(self) -> bool:
        """Whether the server is a child process that uses the stdio transport."""
        return bool(self.command)

    @property
    def argv(self) -> tuple[str, ...]:
        """The command and its arguments, unexpanded."""
        return (self.command, *self.args)


class ModelConfig(Struct, frozen=True, kw_only=True):
    """A model and how to reach it; `name` is litellm's `provider/model`, or `demo`."""

    name: Annotated[str, Meta(max_length=200)] = ""
    api_base: Annotated[str, Meta(max_length=2_000)] = ""
    api_key_env: Annotated[str, Meta(max_length=200)] = ""
    api: ModelApi = "auto"
    reasoning_effort: Annotated[str, Meta(max_length=40)] = ""
    context_window: _Count = 0
    max_output_tokens: _Count = 0
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    tools: ToolUse = "auto"
    headers: dict[Annotated[str, Meta(max_length=200)], Annotated[str, Meta(max_length=4_000)]] = {}  # noqa: RUF012
    """Extra HTTP headers for the provider; values may contain `${env:NAME}` and `${keyring:NAME}`."""


class Limits(Struct, frozen=True, kw_only=True):
    """Time limits in seconds, and limits on the number of rounds, parallel calls and tools."""

    request_timeout: _Seconds = 60
    request_timeout_max: _Seconds = 600
    task_timeout: Annotated[float, Meta(ge=0.1, le=30 * 86_400)] = 3_600
    """Limit of a call that the server turned into a task."""

    connect_timeout: Annotated[float, Meta(ge=0.1, le=3_600)] = 30
    server_wait: Annotated[float, Meta(ge=0, le=3_600)] = 2
    """How long a turn waits for a starting server, from the beginning of its start."""

    includes_user_time: bool = False
    """Whether the time that a user takes to answer counts; set by --timeout only."""

    ping_interval: Annotated[float, Meta(ge=0, le=86_400)] = 60
    """0 disables pings."""

    max_rounds: Annotated[int, Meta(ge=1, le=1_000)] = 25
    parallel_calls: Annotated[int, Meta(ge=1, le=64)] = 8
    tools_to_model: Annotated[int, Meta(ge=1, le=1_000)] = 128


class RootConfig(Struct, frozen=True):
    """A folder to share with servers if the user agrees; `name` may be empty.

    `source` is "started" for the folder mcphost was started in, and "added" for one that the user added while mcphost
    runs. `file` is the configuration file that lists the folder, or "" for the user's config.toml.
    """

    path: str
    name: str = ""
    source: RootSource = "user"
    file: str = ""


class SamplingLimits(Struct, frozen=True, kw_only=True):
    """Limits on one server's sampling requests and their tokens (input and output).

    A session is one run of mcphost.
    """

    requests_per_minute: _Count = 30
    requests_per_session: _Count = 500
    tokens_per_minute: _Count = 200_000
    tokens_per_session: _Count = 2_000_000
    depth: _Count = 2
    """Allowed nesting: with 2, a tool that a sampling calls may request sampling, but not a tool of that one."""


class SamplingConfig(Struct, frozen=True, kw_only=True):
    """Sampling settings; `models` may be used besides the selected model and are ordered from the most capable."""

    limits: SamplingLimits = SamplingLimits()
    models: tuple[ModelConfig, ...] = ()


class AuditConfig(Struct, frozen=True, kw_only=True):
    """Settings of the audit log."""

    content: bool = False
    """Whether to store texts and arguments too, with secrets redacted."""

    required: bool = False
    """Whether to refuse every action that cannot be recorded on disk first."""


class ResultsConfig(Struct, frozen=True, kw_only=True):
    """Limits on the total size and the age of stored tool results."""

    megabytes: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    days: Annotated[int, Meta(ge=0, le=36_500)] = 30


class RegistryConfig(Struct, frozen=True, kw_only=True):
    """The registry that servers are searched in: the base URL of its API, or a JSON file."""

    url: Annotated[str, Meta(max_length=2_000)] = "https://registry.modelcontextprotocol.io"


class Profile(Struct, frozen=True, kw_only=True):
    """A named set of settings from `[profiles.NAME]`; None leaves a setting as it is without the profile."""

    name: str
    description: Annotated[str, Meta(max_length=500)] = ""
    model: ModelConfig | None = None
    system_prompt: Annotated[str, Meta(max_length=200_000)] | None = None
    servers: Annotated[tuple[str, ...], Meta(max_length=1_000)] | None = None
    """Names of the servers to use; the others are disabled."""


class HostConfig(Struct, frozen=True, kw_only=True):
    """The merged configuration. `problems` are the errors that were skipped, each one a readable sentence.

    `roots` is None if not configured; it is then the folder mcphost was started in. `project_roots` are those of a
    project's trusted file, or of a file named on the command line.
    """

    servers: tuple[ServerConfig, ...] = ()
    model: ModelConfig = ModelConfig()
    limits: Limits = Limits()
    audit: AuditConfig = AuditConfig()
    sampling: SamplingConfig = SamplingConfig()
    results: ResultsConfig = ResultsConfig()
    registry: RegistryConfig = RegistryConfig()
    theme: Annotated[str, Meta(max_length=64)] = ""
    system_prompt: Annotated[str, Meta(max_length=200_000)] = ""
    profile: Annotated[str, Meta(max_length=200)] = ""
    """Name of the profile in use, "" for none."""

    profiles: tuple[Profile, ...] = ()
    roots: tuple[RootConfig, ...] | None = None
    project_roots: tuple[RootConfig, ...] = ()
    allow_rules: tuple[Rule, ...] = ()
    """Calls that run without asking in this session."""

    pass_rules: tuple[Rule, ...] = ()
    """Calls whose results the model gets without review in this session, whatever `review_results` says."""

    never_rules: tuple[Rule, ...] = ()
    """Calls that no grant, no mode and no answer allows."""

    secret_store: SecretStore = ""
    settings_file: str = "config.toml"
    """Path of the user's config.toml, whether it exists or not; for hints."""

    problems: tuple[str, ...] = ()
