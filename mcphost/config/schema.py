"""HostConfig, ServerConfig (stdio or http) and ModelConfig as frozen values."""

from typing import Literal

from mcphost.data import Data
from mcphost.protocol.revisions import Era, Revision

Api = Literal["auto", "chat", "responses"]
Source = Literal["user", "project", "flag", "demo"]


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
    """Bounds; seconds and counts. `ping_interval` 0 means that no server is pinged."""

    request_timeout: float = 60
    request_timeout_max: float = 600
    connect_timeout: float = 30
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
