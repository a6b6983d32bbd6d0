"""The configuration as immutable structs; their types and bounds are also used to validate the files."""

from collections.abc import Callable, Iterable
from typing import Annotated, Literal, Self

from msgspec import Meta

from mcphost.config.published_values import NOTHING_PUBLISHED, PublishedValues
from mcphost.config.rules import Rule
from mcphost.protocol.revisions import Era, Revision
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct


class ConfigWarning(str):
    """A harmless problem in the configuration, which leaves all servers and files in use.

    More serious problems are plain strings, or instances of UnreadFile or UnreadSettings.
    """

    __slots__ = ()


class SettingProblem(str):
    """An invalid value in config.toml; `setting` is its full key, such as "limits.max_rounds"."""

    __slots__ = ("setting",)
    setting: str

    def __new__(cls, text: str, setting: str) -> Self:
        """Create a problem with the message *text*, caused by the value of *setting*."""
        problem = super().__new__(cls, text)
        problem.setting = setting
        return problem


class SettingWarning(SettingProblem, ConfigWarning):
    """An invalid value in config.toml that is replaced by its default."""

    __slots__ = ()


class UnreadFile(str):
    """A problem that makes mcphost ignore all servers in a file."""

    __slots__ = ()


class UnreadSettings(str):
    """A problem that makes mcphost ignore all settings in config.toml."""

    __slots__ = ()


ProblemCallback = Callable[[str], None]
"""Callback for a sentence about an invalid part of a configuration."""


def find_config_error(problems: Iterable[str], containing: str = "") -> str:
    """Return the first problem that is not a warning and contains the text *containing*, or "" if there is none."""
    return next((one for one in problems if containing in one and not isinstance(one, ConfigWarning)), "")


def find_unread_settings(problems: Iterable[str]) -> str:
    """Return the reason why all settings in config.toml are ignored.

    Returns "" if the file was read or does not exist.
    """
    return next((problem for problem in problems if isinstance(problem, UnreadSettings)), "")


_Count = Annotated[int, Meta(ge=0, le=10**9)]
_Seconds = Annotated[float, Meta(ge=0.1, le=86_400)]
_Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]
_Price = Annotated[float, Meta(ge=0, le=1_000_000)] | None
ModelApi = Literal["auto", "chat", "responses"]
ToolUse = Literal["auto", "always", "never"]
"""Whether a model is offered tools; "auto" offers them until its provider refuses them."""

OAuthGrant = Literal["person", "client_credentials", "enterprise", "workload"]
Source = Literal["user", "project", "flag", "demo"]
RootSource = Literal["started", "user", "project", "flag", "demo", "added"]
SecretStore = Literal["", "keyring", "file", "encrypted", "session"]
"""Where sign-ins are stored; "" means the keyring, or where the user chooses if there is no keyring."""


class OAuthConfig(Struct, frozen=True, kw_only=True):
    """OAuth settings for a server; if a setting is empty, it is discovered or a default is used.

    `client_secret`, `key`, `assertion` and `idp_token` may contain references such as `${keyring:NAME}`.
    """

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    """The authorization server that issued the client ID, which is sent to no other server."""

    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """Loopback port of the registered redirect URI; 0 means any port."""

    client_metadata_url: str = ""
    """URL of a published client metadata document for mcphost."""

    account: str = ""
    seconds: float = 0
    """Time limit for the user to sign in, 1 to 3600; 0 means the default."""

    resource: str = ""
    """The resource to request a token for if it is wider than the server's URL; only for grants without a user."""

    private: bool = False
    """Whether the authorization server may have a private address although the MCP server has none."""

    grant: OAuthGrant = "person"
    scopes: tuple[str, ...] = ()
    """Scopes to request if the server names none; only for grants without a user."""

    key: str = ""
    algorithm: str = "ES256"
    assertion: str = ""
    idp_token: str = ""
    idp_client_id: str = ""
    idp_token_endpoint: str = ""

    def __repr__(self) -> str:
        return f"OAuthConfig({self.grant!r})"


class ServerInput(Struct, frozen=True, kw_only=True):
    """A value that the user must enter because a server's entry refers to it as `${input:ID}`.

    If there are `options`, the value must be one of them. The value of a password is in the keyring, under the name
    `keyring_entry`. Any other value is in `stored_value`; None means that the user has not entered one yet.
    """

    id: str
    description: str = ""
    password: bool = False
    options: tuple[str, ...] = ()
    default: str = ""
    """Default value to propose to the user; never used without asking."""

    is_shared: bool = False
    """Whether the input is defined for all servers of the file."""

    keyring_entry: str = ""
    stored_value: str | None = None

    def __repr__(self) -> str:
        return f"ServerInput({self.id!r})"


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Configuration of one server: either `command` (stdio) or `url` (HTTP) is set.

    `command`, `args`, `cwd`, `url` and the values of `env` and `headers` may contain references, which are expanded
    when connecting; see `config.variable_references`. `era` limits the protocol revisions to use: "handshake" to
    those up to 2025-11-25, "stateless" to later ones. If `revision` is set, only this revision is used, and `era`
    has no further effect.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    env_file: str = ""
    """Path of a file with more variables, as written; `env` overrides them. See `config.env_file`."""

    env_file_digest: str = ""
    """Digest of the approved content of `env_file`; slow to compute, because the content is secret."""

    env_file_names: tuple[str, ...] = ()
    """Names of the variables in the approved content of `env_file`."""

    cwd: str = ""
    cwd_has_references: bool = False
    """Whether `cwd` still has references; otherwise, it is an absolute path or empty."""

    inputs: tuple[ServerInput, ...] = ()
    """The inputs that the entry refers to, with the stored values of those that are not passwords."""

    startup_folder: str = ""
    """The folder in which mcphost was started, if the server depends on it; otherwise ""."""

    url: str = ""
    transport: Literal["auto", "streamable-http", "sse"] = "auto"
    headers: dict[str, str] = {}  # noqa: RUF012
    oauth: OAuthConfig = OAuthConfig()
    era: Era | Literal["auto"] = "auto"
    revision: Revision | None = None
    disabled: bool = False
    excluded_by: str = ""
    """Name of the profile that disables the server by not listing it, or ""."""

    timeout: float | None = None
    ca_file: str = ""
    ca_digest: str = ""
    """SHA-256 (hex) of the approved content of `ca_file`."""

    trust_annotations: bool = False
    """Whether tools that the server declares as read-only run without asking; only the user's file can set it."""

    disabled_tools: tuple[str, ...] = ()
    """Names of tools, or patterns with `*`, that the model does not see."""

    review_results: bool = False
    """Whether the user must review every result of this server before it is sent to the model."""

    log_level: str = ""
    """Minimum severity of requested log messages (protocol.notifications.LEVELS); empty requests none."""

    watched_files: tuple[str, ...] = ()
    """Patterns of files that restart the server when they change, relative to `watched_folder` unless absolute."""

    watched_folder: str = ""
    has_own_watch: bool = False
    """Whether `mcphost.watch` of the user's own file sets `watched_files`: the user develops this server."""

    matching_servers: tuple[str, ...] = ()
    """Names of the user's servers that equal this project's server, to which their restrictions apply."""

    never_rules: tuple[str, ...] = ()
    """Rules, as text, of `matching_servers` for calls to refuse always; also in `HostConfig.never_rules`."""

    published: PublishedValues = NOTHING_PUBLISHED
    sampling_limits: dict[str, int] = {}  # noqa: RUF012
    """Limits for this server, keyed by field of SamplingLimits; only the user's own file can raise a limit."""

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
        """The command and its arguments, with references not expanded."""
        return (self.command, *self.args)


class ModelConfig(Struct, frozen=True, kw_only=True):
    """Configuration of a model, such as its API, parameters and prices.

    `name` has the form `provider/model` used by litellm, or is `demo`.
    """

    name: Annotated[str, Meta(max_length=200)] = ""
    api_base: Annotated[str, Meta(max_length=2_000)] = ""
    api_key_env: Annotated[str, Meta(max_length=200)] = ""
    api: ModelApi = "auto"
    reasoning_effort: Annotated[str, Meta(max_length=40)] = ""
    context_window: _Count = 0
    max_output_tokens: _Count = 0
    input_price: _Price = None
    """US dollars per million input tokens, if litellm does not know it; None means litellm's price."""

    output_price: _Price = None
    """US dollars per million output tokens, if litellm does not know it; None means litellm's price."""

    cached_input_price: _Price = None
    """US dollars per million input tokens from the provider's cache; None means `input_price`, if that is set."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    tools: ToolUse = "auto"
    headers: dict[Annotated[str, Meta(max_length=200)], Annotated[str, Meta(max_length=4_000)]] = {}  # noqa: RUF012
    """Extra HTTP headers for the provider; values may contain `${env:NAME}` and `${keyring:NAME}`."""


class Limits(Struct, frozen=True, kw_only=True):
    """Time limits in seconds, and limits on model requests per turn, parallel calls and tools."""

    request_timeout: _Seconds = 60
    request_timeout_max: _Seconds = 600
    task_timeout: Annotated[float, Meta(ge=0.1, le=30 * 86_400)] = 3_600
    """Time limit for a tool call that the server runs as a task."""

    connect_timeout: Annotated[float, Meta(ge=0.1, le=3_600)] = 30
    server_wait: Annotated[float, Meta(ge=0, le=3_600)] = 2
    """How long a turn waits for a server that is starting, counted from the beginning of the start."""

    includes_user_time: bool = False
    """Whether time limits include the time that the user takes to answer; set by `--timeout` only."""

    ping_interval: Annotated[float, Meta(ge=0, le=86_400)] = 60
    """Interval between pings of a server; 0 disables them."""

    max_rounds: Annotated[int, Meta(ge=1, le=1_000)] = 25
    parallel_calls: Annotated[int, Meta(ge=1, le=64)] = 8
    tools_to_model: Annotated[int, Meta(ge=1, le=1_000)] = 128


class RootConfig(Struct, frozen=True):
    """A folder to share with servers if the user agrees.

    - `name` may be empty.
    - `source` is "started" for the folder in which mcphost was started, and "added" for a folder that the user
      added while mcphost was running. Otherwise, it is the kind of file that lists the folder.
    - `file` is the configuration file that lists the folder, or "" for the user's config.toml.
    """

    path: str
    name: str = ""
    source: RootSource = "user"
    file: str = ""


class SamplingLimits(Struct, frozen=True, kw_only=True):
    """Limits on the sampling requests that one server may make.

    The limits on tokens apply to input plus output. The limits per session apply to one run of mcphost.
    """

    requests_per_minute: _Count = 30
    requests_per_session: _Count = 500
    tokens_per_minute: _Count = 200_000
    tokens_per_session: _Count = 2_000_000
    depth: _Count = 2
    """Maximum nesting: with 2, a tool called during a sampling request can cause a second one, but no third."""


SAMPLING_FIELD_BY_KEY = {
    "requestsPerMinute": "requests_per_minute",
    "requestsPerSession": "requests_per_session",
    "tokensPerMinute": "tokens_per_minute",
    "tokensPerSession": "tokens_per_session",
    "depth": "depth",
}
"""Field of `SamplingLimits` for each key of `mcphost.sampling` in mcp.json."""


class SamplingConfig(Struct, frozen=True, kw_only=True):
    """Sampling settings; `models` lists models to allow in addition to the selected one, the most capable first."""

    limits: SamplingLimits = SamplingLimits()
    models: tuple[ModelConfig, ...] = ()


class ConsentConfig(Struct, frozen=True, kw_only=True):
    """Settings for consent to tool calls, except the rules in `consent.never`."""

    origins: Literal["mark", "ask"] = "mark"
    """How to treat arguments that contain text from other servers.

    "mark" highlights the text in questions. With "ask", a permission covers the call only if it names these servers."""


CompactionMode = Literal["ask", "auto", "never"]


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """Settings for when and how the beginning of a conversation is summarized for the model."""

    mode: CompactionMode = "ask"
    """What to do before a request that nearly fills the context window: "auto" summarizes without asking the user."""

    threshold: Annotated[int, Meta(ge=10, le=100)] = 85
    """Percentage of the context window above which a request counts as nearly filling it."""

    keep_messages: Annotated[int, Meta(ge=1, le=1_000)] = 6
    """Number of most recent messages that are never summarized; the rest of their turn is kept as well."""

    model: Annotated[str, Meta(max_length=200)] = ""
    """The model that writes summaries, as `provider/model`; "" means the selected model."""


class TitlesConfig(Struct, frozen=True, kw_only=True):
    """Settings for the automatic titles of conversations."""

    mode: Literal["first-line", "model"] = "first-line"
    """Where titles come from: the first line of the first message, or a model, which takes a short request."""

    model: Annotated[str, Meta(max_length=200)] = ""
    """The model that writes titles, as `provider/model`; "" means the selected model."""


class AuditConfig(Struct, frozen=True, kw_only=True):
    """Settings for the audit log."""

    content: bool = False
    """Whether to also store the text of messages and the arguments of calls, with secrets redacted."""

    required: bool = True
    """Whether to refuse actions that cannot be recorded on disk first."""


class ResultsConfig(Struct, frozen=True, kw_only=True):
    """Limits on the total size (in megabytes) and age (in days) of stored tool results."""

    megabytes: Annotated[int, Meta(ge=0, le=1_000_000)] = 1_000
    days: Annotated[int, Meta(ge=0, le=36_500)] = 30


class BudgetConfig(Struct, frozen=True, kw_only=True):
    """Limits on the cost of model requests, in US dollars; 0 means no limit.

    The user is asked before a request whose highest estimated cost exceeds `ask_above`, or that would exceed
    `per_turn`, `per_conversation` or `per_day`.
    """

    ask_above: _Dollars = 0
    per_turn: _Dollars = 0
    per_conversation: _Dollars = 0
    per_day: _Dollars = 0
    """Limit per calendar day, in local time, for all conversations of all mcphost processes."""

    show_in_answers: bool = True
    """Whether the cost of each answer is shown beside its time."""


NotificationMode = Literal["auto", "off", "bell", "osc", "desktop"]


class NotificationsConfig(Struct, frozen=True, kw_only=True):
    """Settings for notifications shown while the terminal is not focused, and for the terminal's title."""

    mode: NotificationMode = "auto"
    """"auto" uses the terminal's own notifications if it is known to support them, otherwise a bell; "osc" always
    writes an escape sequence (OSC 9 or 777); "desktop" runs notify-send or osascript."""

    after_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 10
    """Minimum duration in seconds of a turn or call whose end causes a notification; questions always do."""

    title: bool = True
    """Whether the terminal's title shows the state, as in "mcphost - ready"."""


class ScreenConfig(Struct, frozen=True, kw_only=True):
    """Settings for the terminal user interface."""

    reader: bool = False
    """Whether to draw for a screen reader: one column of plain text, no animation, one line for each state."""

    language: Literal["auto", "en", "zh-CN"] = "auto"
    """The language of the screen; "auto" follows the locale of the environment."""

    pictures: Literal["auto", "half-blocks", "kitty", "sixel"] = "auto"
    """How to draw pictures: with half-block characters, with the graphics protocol of Kitty, or as Sixel graphics.

    "auto" is "kitty" in kitty and Ghostty, "sixel" in other terminals that report Sixel graphics, and otherwise
    "half-blocks", also in tmux, screen and Zellij.
    """


class KeyConfig(Struct, frozen=True):
    """An action of the user interface and the keys bound to it, such as "ctrl+k"; () means that no key is bound."""

    action: str
    keys: tuple[str, ...] = ()


class ContextConfig(Struct, frozen=True, kw_only=True):
    """Settings for what model requests contain, and how much of the context window each part may use."""

    project_instructions: bool = True
    """Whether to read the AGENTS.md files of a project, which are used once they are approved."""

    max_tools: Annotated[int, Meta(ge=1, le=1_000)] = 40
    """Maximum number of tools whose definitions are all sent; with more, the model finds some by search."""

    tool_share: Annotated[float, Meta(ge=0.001, le=1)] = 0.1
    """Share of the context window for tool definitions; if they need more, the model finds some by search."""

    pinned_tools: Annotated[tuple[Annotated[str, Meta(max_length=300)], ...], Meta(max_length=200)] = ()
    """Tools that are always sent, as `server/tool`; `*` stands for any text."""

    result_share: Annotated[float, Meta(ge=0.001, le=0.5)] = 0.15
    """Share of the context window for one tool result; all results of one round may take twice as much."""

    shorten_above: Annotated[float, Meta(ge=0.1, le=1)] = 0.6
    """Share of the context window above which old tool results are shortened."""


class RegistryConfig(Struct, frozen=True, kw_only=True):
    """The registry in which to search for servers: the base URL of its API, or a JSON file."""

    url: Annotated[str, Meta(max_length=2_000)] = "https://registry.modelcontextprotocol.io"


class Profile(Struct, frozen=True, kw_only=True):
    """A named set of settings from `[profiles.NAME]`; a field that is None leaves that setting unchanged."""

    name: str
    description: Annotated[str, Meta(max_length=500)] = ""
    model: ModelConfig | None = None
    system_prompt: Annotated[str, Meta(max_length=200_000)] | None = None
    servers: Annotated[tuple[str, ...], Meta(max_length=1_000)] | None = None
    """Names of the servers to use; the others are disabled."""


HookEvent = Literal["before_call", "after_call"]


class HookSettings(Struct, frozen=True, kw_only=True):
    """Settings for a hook; `timeout` is in seconds. If `match` has no rules, the hook runs for every call."""

    event: HookEvent
    command: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100)]
    match: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    timeout: Annotated[float, Meta(gt=0, le=300)] = 10.0
    on_failure: Literal["deny", "continue"] = "deny"


class HookConfig(Struct, frozen=True, kw_only=True):
    """A hook with its parsed rules.

    The hook's program runs in `folder`: the folder of the file that defines the hook or, for a project's hook, the
    project's folder.
    """

    settings: HookSettings
    rules: tuple[Rule, ...] = ()
    folder: str = ""

    @property
    def name(self) -> str:
        """The command as one line, for display."""
        return sanitize_line(" ".join(self.settings.command), 200)


class HostConfig(Struct, frozen=True, kw_only=True):
    """The merged configuration of all files.

    - `problems` contains a sentence for each invalid part of a file; harmless problems are ConfigWarning objects.
    - `roots` is None if no roots are configured; the only root is then the folder in which mcphost was started.
    - `project_roots` come from a project's trusted file, or from a file given with `--mcp-config`.
    """

    servers: tuple[ServerConfig, ...] = ()
    model: ModelConfig = ModelConfig()
    limits: Limits = Limits()
    audit: AuditConfig = AuditConfig()
    budget: BudgetConfig = BudgetConfig()
    consent: ConsentConfig = ConsentConfig()
    sampling: SamplingConfig = SamplingConfig()
    compaction: CompactionConfig = CompactionConfig()
    titles: TitlesConfig = TitlesConfig()
    results: ResultsConfig = ResultsConfig()
    context: ContextConfig = ContextConfig()
    registry: RegistryConfig = RegistryConfig()
    notifications: NotificationsConfig = NotificationsConfig()
    screen: ScreenConfig = ScreenConfig()
    keys: tuple[KeyConfig, ...] = ()
    """Configured key bindings, in the order of the file; the UI checks the names of actions and keys."""

    theme: Annotated[str, Meta(max_length=64)] = ""
    system_prompt: Annotated[str, Meta(max_length=200_000)] = ""
    profile: Annotated[str, Meta(max_length=200)] = ""
    """Name of the profile in use, or "" if there is none."""

    profiles: tuple[Profile, ...] = ()
    roots: tuple[RootConfig, ...] | None = None
    project_roots: tuple[RootConfig, ...] = ()
    allow_rules: tuple[Rule, ...] = ()
    """Rules for tool calls that run without asking in this session."""

    pass_rules: tuple[Rule, ...] = ()
    """Rules for tool calls whose results need no review in this session, whatever `review_results` says."""

    hooks: tuple[HookConfig, ...] = ()
    """Programs of the user that run before or after tool calls, in this order."""

    never_rules: tuple[Rule, ...] = ()
    """Rules for tool calls that are always refused, whatever the user grants, selects or answers."""

    secret_store: SecretStore = ""
    settings_file: str = "config.toml"
    """Path of the user's config.toml, for hints; the file may not exist."""

    problems: tuple[str, ...] = ()

    def find_server(self, name: str) -> ServerConfig | None:
        """Return the configured server with this name, or None."""
        return next((server for server in self.servers if server.name == name), None)
