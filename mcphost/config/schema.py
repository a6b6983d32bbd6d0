"""HostConfig, ServerConfig (stdio or http) and ModelConfig as frozen values."""

from typing import Literal

from mcphost.config.rules import Rule
from mcphost.protocol.revisions import Era, Revision
from mcphost.serialization import Struct

ModelApi = Literal["auto", "chat", "responses"]
OAuthGrant = Literal["person", "client_credentials", "enterprise", "workload"]
Source = Literal["user", "project", "flag", "demo"]
RootSource = Literal["started", "user", "project", "flag", "demo", "added"]
SecretStore = Literal["", "keyring", "file", "encrypted", "session"]
"""Where sign-ins are kept; "": in the keyring, and the user is asked when there is none."""


class OAuthConfig(Struct, frozen=True, kw_only=True):
    """What the user knows about signing in to a server; empty means: found out.

    `client_secret`, `key`, `assertion` and `idp_token` may hold references, as `env` and `headers` of a server do.
    """

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    """The authorization server that the client id belongs to; it is sent to no other."""

    port: int = 0
    """The loopback port of the registered redirect address; 0: any."""

    client_metadata_url: str = ""
    """Where a client metadata document for mcphost is published."""

    account: str = ""
    seconds: float = 0
    """How long a person may take to sign in; 0: as long as usual."""

    private: bool = False
    """The authorization server may be at a private address though the MCP server is not."""

    grant: OAuthGrant = "person"
    scopes: tuple[str, ...] = ()
    """For grants without a person: what to ask for when the server does not say."""

    key: str = ""
    algorithm: str = "ES256"
    assertion: str = ""
    idp_token: str = ""
    idp_client_id: str = ""
    idp_token_endpoint: str = ""

    def __repr__(self) -> str:
        return f"OAuthConfig({self.grant!r})"


class ServerConfig(Struct, frozen=True, kw_only=True):
    """One server. `command` set means stdio, `url` set means HTTP; exactly one of them is.

    Values of `env` and `headers` may hold `${env:NAME}` and `${keyring:NAME}`; they are expanded when connecting.
    `revision` demands one protocol revision and no other; `era` is then its era or "auto".
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    cwd: str = ""
    startup_folder: str = ""
    """The folder mcphost was started in, when what runs depends on it; "" when it runs the same from everywhere."""

    url: str = ""
    transport: Literal["auto", "streamable-http", "sse"] = "auto"
    headers: dict[str, str] = {}  # noqa: RUF012
    oauth: OAuthConfig = OAuthConfig()
    era: Era | Literal["auto"] = "auto"
    revision: Revision | None = None
    disabled: bool = False
    timeout: float | None = None
    ca_file: str = ""
    ca_digest: str = ""
    """SHA-256 (hex) of the content that `ca_file` must have; set when an approval that covers it was found."""

    trust_annotations: bool = False
    """Tools that the server claims only to read run unasked; only the user's own file can say so."""

    disabled_tools: tuple[str, ...] = ()
    """Names of tools, or patterns with `*`, that the model is not told of."""

    review_results: bool = False
    """The model gets nothing that came from this server before the user has read it."""

    log_level: str = ""
    """The least severe log messages to ask for (protocol.logging.LEVELS); empty: none are asked for."""

    matching_servers: tuple[str, ...] = ()
    """Servers of the user's that this entry of a project leads to as well; what restricts those is in here, too."""

    never_rules: tuple[str, ...] = ()
    """The never-rules that hold for it because of those, as text; they are also in `HostConfig.never_rules`."""

    sampling_limits: dict[str, int] = {}  # noqa: RUF012
    """What of SamplingLimits is another number for this server; only the user's own file can raise one."""

    source: Source = "user"
    file: str = ""

    def __repr__(self) -> str:
        return f"ServerConfig({self.name!r})"

    @property
    def is_stdio(self) -> bool:
        """Whether the server is a child process."""
        return bool(self.command)

    @property
    def argv(self) -> tuple[str, ...]:
        """The exact command, as shown in the trust dialog."""
        return (self.command, *self.args)


class ModelConfig(Struct, frozen=True, kw_only=True):
    """Which model, and how to reach it; `name` is litellm's `provider/model`, or `demo`."""

    name: str = ""
    api_base: str = ""
    api_key_env: str = ""
    api: ModelApi = "auto"
    reasoning_effort: str = ""
    context_window: int = 0
    max_output_tokens: int = 0


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds; seconds and counts. `ping_interval` 0 means that no server is pinged; `task_timeout` is for a call that
    its server made a task of, which is asked for its state all the while. `hard`: the time a person is asked counts.
    `server_wait`: how long a turn waits for a server that is starting, counted from the beginning of its start."""

    request_timeout: float = 60
    request_timeout_max: float = 600
    task_timeout: float = 3_600
    connect_timeout: float = 30
    server_wait: float = 2
    includes_user_time: bool = False
    ping_interval: float = 60
    max_rounds: int = 25
    parallel_calls: int = 8
    tools_to_model: int = 128


class RootConfig(Struct, frozen=True):
    """A folder servers may be told of, when the user agrees; `name` may be empty.

    `source` says who named it: "started" is the folder mcphost was started in, "added" what the user added on the
    screen or the pipe; `file` is the file that did, unless it is the user's config.toml.
    """

    path: str
    name: str = ""
    source: RootSource = "user"
    file: str = ""


class SamplingLimits(Struct, frozen=True, kw_only=True):
    """What one server may use of the user's model: requests and tokens (what goes in and what comes out), in any minute
    and in one run of mcphost. 0: none."""

    requests_per_minute: int = 30
    requests_per_session: int = 500
    tokens_per_minute: int = 200_000
    tokens_per_session: int = 2_000_000
    depth: int = 2
    """How many samplings may be nested: 2 lets a tool that a sampling calls ask the model, and no tool of that one."""


class SamplingConfig(Struct, frozen=True, kw_only=True):
    """Servers that ask the user's model. `models` may answer beside the one that was chosen, the most capable first."""

    limits: SamplingLimits = SamplingLimits()
    models: tuple[ModelConfig, ...] = ()


class AuditConfig(Struct, frozen=True, kw_only=True):
    """What the audit ledger keeps. `content`: words and arguments too, without secrets; `required`: nothing is allowed
    that cannot be recorded on the disk first."""

    content: bool = False
    required: bool = False


class ResultsConfig(Struct, frozen=True, kw_only=True):
    """How much of the results that were too big for a model is kept on the disk, all together, and for how long."""

    megabytes: int = 1_000
    days: int = 30


class HostConfig(Struct, frozen=True, kw_only=True):
    """Everything the user wrote, merged. `problems` are mistakes that did not stop us, each one readable sentence.

    `roots` is None when nothing was written about them: then it is the folder mcphost was started in. `more_roots` are
    those of a project's file that the user trusted, or of one named on the command line.
    """

    servers: tuple[ServerConfig, ...] = ()
    model: ModelConfig = ModelConfig()
    limits: Limits = Limits()
    audit: AuditConfig = AuditConfig()
    sampling: SamplingConfig = SamplingConfig()
    results: ResultsConfig = ResultsConfig()
    theme: str = ""
    system_prompt: str = ""
    roots: tuple[RootConfig, ...] | None = None
    project_roots: tuple[RootConfig, ...] = ()
    allow_rules: tuple[Rule, ...] = ()
    """Calls that may run unasked in this run."""

    pass_rules: tuple[Rule, ...] = ()
    """Calls whose results the model may have unread in this run, whatever their servers say of reviewing."""

    never_rules: tuple[Rule, ...] = ()
    """Calls that no grant, no mode and no answer allows."""

    secret_store: SecretStore = ""
    settings_file: str = "config.toml"
    """The path of the user's config.toml, whether there is such a file or not; for hints."""

    problems: tuple[str, ...] = ()
