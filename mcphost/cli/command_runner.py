"""Runs one command's coroutine: options from flags, the log, signals that end it like quit."""

import logging
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

from mcphost import log
from mcphost.cli.bootstrap import open_host
from mcphost.cli.options import Options
from mcphost.cli.output import conversation_not_found, print_note
from mcphost.config.loader import find_file_problem, find_server_problem
from mcphost.config.schema import HostConfig, ModelConfig
from mcphost.errors import ConfigError, McpHostError, UsageError
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Frontend, RefusingFrontend
from mcphost.host.views import ServerView
from mcphost.serialization import replace


def run_command(options: Options, work: Callable[[], Awaitable[int]]) -> int:
    """Run it to its end; an interrupt, SIGTERM or SIGHUP cancels it in order, and the exit code is 130."""
    log.configure_logging(options.log_level)
    logging.getLogger("mcphost").info("mcphost starts")

    async def main() -> int:
        code = 130
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def listen() -> None:
                with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                    async for _ in signals:
                        scope.cancel()

            tasks.start_soon(listen)
            # Outside this scope, so that a second signal cannot cut the closing of servers short.
            with scope:
                code = await work()
            tasks.cancel_scope.cancel()
        return code

    return anyio.run(main)


@asynccontextmanager
async def open_host_for_server(options: Options, name: str, frontend: Frontend | None = None) -> AsyncGenerator[Host]:
    """A Host for a command about one server; nothing of the others starts.

    Raises ConfigError when its entry or the file it may be in is broken, UsageError when there is none.
    """
    async with open_host(options, frontend or RefusingFrontend(), adjust_config=remove_model) as host:
        require_server(host.config, name)
        yield host


async def resume_conversation(host: Host, id_prefix: str) -> None:
    """Open the conversation whose id begins so, or the latest one for "". Raises UsageError, StoreError."""
    found = (
        await host.conversation.list_stored(prefix=id_prefix)
        if id_prefix
        else await host.conversation.list_stored(limit=1)
    )
    ids = [row.id for row in found]
    if not ids:
        raise conversation_not_found(id_prefix)
    if id_prefix and len(ids) > 1 and id_prefix not in ids:
        raise UsageError(f"{len(ids)} conversations begin with {id_prefix!r}.", "Give more of its id: mcphost sessions")
    await host.conversation.open(id_prefix if id_prefix in ids else ids[0])


def remove_model(config: HostConfig) -> HostConfig:
    """No command that only talks to servers pays for a model, or fails for its settings."""
    return replace(config, model=ModelConfig())


def require_server(config: HostConfig, name: str) -> None:
    """Raises ConfigError or UsageError unless there is a usable server of that name."""
    if any(server.name == name for server in config.servers):
        return
    problem = find_server_problem(config, name) or find_file_problem(config)
    if problem:
        raise ConfigError(problem)
    names = ", ".join(server.name for server in config.servers)
    unused = "".join(f" {problem}" for problem in config.problems if "is not used" in problem)
    raise UsageError(f"There is no server named {name!r}.{unused}", f"Configured servers: {names or 'none'}.")


def print_config_problems(config: HostConfig, options: Options) -> None:
    """Say on stderr what is wrong with the configuration."""
    if not options.quiet:
        for problem in config.problems:
            print_note(problem)


ROUND_TRIP_TIMEOUT = 10


class ServerConnectResult:
    """One server, when it was ready; or why it was not."""

    def __init__(self, view: ServerView, error: McpHostError | None, seconds: float) -> None:
        self.view, self.error, self.seconds = view, error, seconds
        self.latency: float | None = None
        """Seconds of one round trip, once measured."""

    def error_data(self) -> dict[str, Any]:
        """The error as JSON data."""
        error = self.error
        if error is None:
            return {}
        return {"server": self.view.name, "kind": error.kind, "message": error.message, "hint": error.hint,
                "exit": error.exit_code}  # fmt: skip


async def connect_servers(
    host: Host,
    names: list[str] | None = None,
    on_result: Callable[[ServerConnectResult], Awaitable[None]] | None = None,
) -> list[ServerConnectResult]:
    """Connect those, or every enabled one, in the order of the configuration; nothing else is started.

    `known` is awaited with each answer as soon as there is one.
    """
    wanted = names or [view.name for view in host.servers.views() if not view.config.disabled]
    answers: dict[str, ServerConnectResult] = {}

    async def connect(name: str) -> None:
        began = time.monotonic()
        try:
            view, error = await host.servers.ensure_ready(name), None
        except McpHostError as caught:
            view, error = host.servers.view(name), caught
        answer = answers[name] = ServerConnectResult(view, error, time.monotonic() - began)
        if on_result is not None:
            await on_result(answer)

    async with anyio.create_task_group() as tasks:
        for name in wanted:
            tasks.start_soon(connect, name)
    return [answers[name] for name in wanted]


async def measure_latency(host: Host, result: ServerConnectResult) -> None:
    """Measure what one round trip takes to a server that is ready; one that failed has none."""
    if result.error is None:
        with suppress(McpHostError), anyio.move_on_after(ROUND_TRIP_TIMEOUT):
            result.latency = await host.features.measure_round_trip(result.view.name)
