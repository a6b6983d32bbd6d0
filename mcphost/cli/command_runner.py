"""Functions shared by several commands: signal handling, a Host for one server, and connecting to servers."""

import logging
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

from mcphost import log
from mcphost.cli.build_host import open_host
from mcphost.cli.parser import Options
from mcphost.cli.printing import conversation_not_found, print_note
from mcphost.config.loader import find_file_problem, find_server_problem, find_unread_file
from mcphost.config.schema import HostConfig, ModelConfig, ServerConfig, UnreadFile, UnreadSettings
from mcphost.errors import ConfigError, McpHostError, UsageError
from mcphost.host.host import Host
from mcphost.host.model_selection import describe_switch
from mcphost.host.questions.frontend import RefusingFrontend
from mcphost.host.server_views import ServerView
from mcphost.serialization import replace
from mcphost.store.conversations import ConversationInfo


def run_command(options: Options, work: Callable[[], Awaitable[int]]) -> int:
    """Run *work* and return its exit code.

    SIGINT, SIGTERM and SIGHUP cancel *work*; the exit code is then 130.
    """
    log.configure_logging(options.log_level)
    logging.getLogger("mcphost").info("mcphost starts")

    async def main() -> int:
        code = 130
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def cancel_on_signal() -> None:
                with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
                    async for _ in signals:
                        scope.cancel()

            tasks.start_soon(cancel_on_signal)
            # Outside the cancelled scope, so that a second signal cannot interrupt the shutdown of the servers.
            with scope:
                code = await work()
            tasks.cancel_scope.cancel()
        return code

    return anyio.run(main)


@asynccontextmanager
async def open_host_for_server(options: Options, name: str) -> AsyncGenerator[Host]:
    """Build a Host for a command that uses only the server *name*; the server is not started yet.

    Raises ConfigError if the server's entry or the file that contains it is invalid, and UsageError if there is no
    server with that name.
    """
    async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
        require_server(host.config, name)
        yield host


async def find_conversation(host: Host, id_prefix: str) -> ConversationInfo:
    """Return the stored conversation whose id starts with *id_prefix*.

    If the prefix is empty, return the conversation with the newest message. Conversations from `mcphost run` are then
    ignored unless they were continued in a chat, renamed or pinned. Raises StoreError, or UsageError if no conversation
    or more than one matches.
    """
    rows = (
        await host.conversation.list_stored(prefix=id_prefix)
        if id_prefix
        else await host.conversation.list_stored(limit=1, with_runs=False)
    )
    if not rows and not id_prefix and await host.history.count_runs():
        raise UsageError(
            "There is no conversation yet except those of mcphost run.",
            "To continue one of them: mcphost --resume ID; ids: mcphost sessions",
        )
    if not rows:
        raise conversation_not_found(id_prefix)
    exact = next((row for row in rows if row.id == id_prefix), None)
    if id_prefix and len(rows) > 1 and exact is None:
        raise UsageError(
            f"{len(rows)} conversations begin with {id_prefix!r}.", "Use a longer prefix of the id: mcphost sessions"
        )
    return exact or next(iter(rows))


async def resume_conversation(host: Host, id_prefix: str) -> None:
    """Open the stored conversation whose id starts with *id_prefix*.

    If the prefix is empty, the latest conversation is opened, as explained at `find_conversation`, which also lists the
    errors raised. The user is notified if the selected model differs from the model used in the conversation.
    """
    info = await find_conversation(host, id_prefix)
    await host.conversation.open(info.id)
    difference = host.model_selection.describe_difference(info.model)
    if difference:
        host.events.notify_early("warning", difference, hint=describe_switch(info.model))


def remove_model(config: HostConfig) -> HostConfig:
    """Return the configuration without a model, for commands that communicate only with servers."""
    return replace(config, model=ModelConfig())


_MAX_SHOWN_NAME = 80


def require_server(config: HostConfig, name: str) -> ServerConfig:
    """Return the configured server with this name.

    Raises ConfigError if the server's entry or a file that may contain it is invalid, and UsageError if there is no
    server with that name.
    """
    if (server := config.find_server(name)) is not None:
        return server
    problem = find_server_problem(config, name) or find_file_problem(config)
    if problem:
        raise ConfigError(problem)
    from difflib import get_close_matches

    names = ", ".join(server.name for server in config.servers)
    unused = "".join(f" {problem}" for problem in config.problems if "is not used" in problem)
    shown = name if len(name) <= _MAX_SHOWN_NAME else f"{name[:_MAX_SHOWN_NAME]}…"
    by_case = {server.name.casefold(): server.name for server in config.servers}
    near = next(iter(get_close_matches(shown.casefold(), by_case, 1)), "")
    if near:
        raise UsageError(
            f"There is no server named {shown!r}.{unused}",
            f"Did you mean {by_case[near]!r}? Configured servers: {names}.",
        )
    raise UsageError(
        f"There is no server named {shown!r}.{unused}",
        f"Configured servers: {names}." if names else "Add one: mcphost servers add NAME -- COMMAND, or NAME URL",
    )


def print_config_problems(config: HostConfig, options: Options) -> None:
    """Print all configuration problems to stderr; with `--quiet`, only those of files that could not be read."""
    for problem in config.problems:
        if not options.quiet or isinstance(problem, (UnreadFile, UnreadSettings)):
            print_note(problem)


def unread_file_code(config: HostConfig) -> int:
    """Return the exit code of ConfigError if a file with server entries could not be read, otherwise 0."""
    return ConfigError.exit_code if find_unread_file(config) else 0


ROUND_TRIP_TIMEOUT = 10


class ServerConnectResult:
    """Result of connecting to a server: the server's state, the error, if any, and the duration in seconds."""

    def __init__(self, view: ServerView, error: McpHostError | None, seconds: float) -> None:
        self.view, self.error, self.seconds = view, error, seconds
        self.latency: float | None = None
        """Duration of one round trip in seconds; None until `measure_latency` succeeds."""

    def error_data(self) -> dict[str, Any]:
        """Return the error as JSON data, or {} if there is none."""
        error = self.error
        if error is None:
            return {}
        return {"server": self.view.name, "kind": error.kind, "message": error.message, "hint": error.hint,
                "exit": error.exit_code}  # fmt: skip


def find_never_rule_warnings(host: Host) -> tuple[str, ...]:
    """Return warnings about rules in `consent.never` that probably match no call.

    These are rules with misspelt operators, rules for servers that are not configured, and rules for tools that
    a connected server does not have. Warnings that the configuration's problems already include are omitted.
    """
    from mcphost.config.rule_warnings import find_rule_warnings, find_rules_without_tool
    from mcphost.host.builtin_tool_names import LOAD_SKILL

    views, rules = host.servers.views(), host.config.never_rules
    tools = {
        view.name: [*(tool.name for tool in view.catalog.tools), LOAD_SKILL] for view in views if view.state == "ready"
    }
    unknown = find_rule_warnings(rules, [view.name for view in views], with_unlike=True)
    known = " ".join(host.config.problems)
    return tuple(text for text in (*unknown, *find_rules_without_tool(rules, tools)) if text not in known)


async def connect_servers(
    host: Host,
    names: list[str] | None = None,
    on_result: Callable[[ServerConnectResult], Awaitable[None]] | None = None,
) -> list[ServerConnectResult]:
    """Connect concurrently to the servers in *names*, or to all enabled servers if *names* is empty or None.

    Return the results in the order of *names*, or in the order of the configuration if there are no names. *on_result*
    is called with each result as soon as it is known.
    """
    names = names or [view.name for view in host.servers.views() if not view.config.disabled]
    results: dict[str, ServerConnectResult] = {}

    async def connect(name: str) -> None:
        start = time.monotonic()
        try:
            view, error = await host.servers.ensure_ready(name), None
        except McpHostError as caught:
            view, error = host.servers.view(name), caught
        result = results[name] = ServerConnectResult(view, error, time.monotonic() - start)
        if on_result is not None:
            await on_result(result)

    async with anyio.create_task_group() as tasks:
        for name in names:
            tasks.start_soon(connect, name)
    return [results[name] for name in names]


async def measure_latency(host: Host, result: ServerConnectResult) -> None:
    """Measure the round-trip time of a request to the server, and store it in `result.latency`.

    Does nothing if connecting failed. If the measurement fails or takes too long, `result.latency` is not changed.
    """
    if result.error is None:
        with suppress(McpHostError), anyio.move_on_after(ROUND_TRIP_TIMEOUT):
            result.latency = await host.features.measure_round_trip(result.view.name)
