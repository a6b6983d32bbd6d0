"""HostConfig, ServerConfig (stdio or http) and ModelConfig as frozen values."""

from typing import Literal

from mcphost.data import Data
from mcphost.protocol.revisions import Era, Revision

Api = Literal["auto", "chat", "responses"]
Grant = Literal["person", "client_credentials", "enterprise", "workload"]
Source = Literal["user", "project", "flag", "demo"]


class OAuthConfig(Data, frozen=True, kw_only=True):
    """What the user knows about signing in to a server; empty means: found out.

    `client_secret`, `key`, `assertion` and `idp_token` may hold references, as `env` and `headers` of a server do.
    """

    client_id: str = ""
    client_secret: str = ""
    issuer: str = ""
    """The authorization server that the client id belongs to; it is sent to no other."""

    port: int = 0
    """The loopback port of the registered redirect address; 0: any."""

    document_url: str = ""
    """Where a client metadata document for mcphost is published."""

    account: str = ""
    private: bool = False
    """The authorization server may be at a private address though the MCP server is not."""

    grant: Grant = "person"
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


class ServerConfig(Data, frozen=True, kw_only=True):
    """One server. `command` set means stdio, `url` set means HTTP; exactly one of them is.

    Values of `env` and `headers` may hold `${env:NAME}` and `${keyring:NAME}`; they are expanded when connecting.
    `revision` demands one protocol revision and no other; `era` is then its era or "auto".
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    cwd: str = ""
    url: str = ""
    transport: Literal["auto", "streamable-http", "sse"] = "auto"
    headers: dict[str, str] = {}  # noqa: RUF012
    oauth: OAuthConfig = OAuthConfig()
    era: Era | Literal["auto"] = "auto"
    revision: Revision | None = None
    disabled: bool = False
    timeout: float | None = None
    ca_file: str = ""
    log_level: str = ""
    """The least severe log messages to ask for (protocol.logs.LEVELS); empty: none are asked for."""

    source: Source = "user"
    file: str = ""

    @property
    def is_stdio(self) -> bool:
        """Whether the server is a child process."""
        return bool(self.command)

    @property
    def argv(self) -> tuple[str, ...]:
        """The exact command, as shown in the trust dialog."""
        return (self.command, *self.args)


class ModelConfig(Data, frozen=True, kw_only=True):
    """Which model, and how to reach it; `name` is litellm's `provider/model`, or `demo`."""

    name: str = ""
    api_base: str = ""
    api_key_env: str = ""
    api: Api = "auto"
    reasoning_effort: str = ""
    context_window: int = 0
    max_output_tokens: int = 0


class Limits(Data, frozen=True, kw_only=True):
    """Bounds; seconds and counts. `ping_interval` 0 means that no server is pinged; `task_timeout` is for a call that
    its server made a task of, which is asked for its state all the while. `hard`: the time a person is asked counts."""

    request_timeout: float = 60
    request_timeout_max: float = 600
    task_timeout: float = 3_600
    connect_timeout: float = 30
    hard: bool = False
    ping_interval: float = 60
    max_rounds: int = 25
    parallel_calls: int = 8
    tools_to_model: int = 128


class RootConfig(Data, frozen=True):
    """A folder servers may be told of, when the user agrees; `name` may be empty."""

    path: str
    name: str = ""


class HostConfig(Data, frozen=True, kw_only=True):
    """Everything the user wrote, merged. `problems` are mistakes that did not stop us, each one readable sentence.

    `roots` is None when nothing was written about them: then it is the folder mcphost was started in.
    """

    servers: tuple[ServerConfig, ...] = ()
    model: ModelConfig = ModelConfig()
    limits: Limits = Limits()
    theme: str = ""
    system_prompt: str = ""
    roots: tuple[RootConfig, ...] | None = None
    problems: tuple[str, ...] = ()
