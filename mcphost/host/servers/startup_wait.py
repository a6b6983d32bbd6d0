"""The wait of a turn for starting servers, and the messages about late ones."""

from collections.abc import Callable, Iterable

import anyio

from mcphost.host.servers.connection import ServerConnection


class ServerStartup:
    """Startup wait: a turn begins without slow servers, and their tools join a later round."""

    def __init__(
        self, servers: Iterable[ServerConnection], seconds: float, notify: Callable[[str, str, str], None]
    ) -> None:
        """*seconds* is the longest wait for one server from its start; *notify* is Host.notify."""
        self._servers = servers
        self._seconds = seconds
        self._notify = notify
        self._late_servers: set[str] = set()

    async def wait(self) -> None:
        """Wait for starting servers and notify which ones the turn begins without. May be cancelled."""
        async with anyio.create_task_group() as tasks:
            for connection in self._servers:
                tasks.start_soon(connection.wait_for_start, self._seconds)
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        newly_late = sorted(starting - self._late_servers)
        self._late_servers |= starting
        if newly_late:
            self._notify(
                "info",
                f"Starting without {_join_names(newly_late)}, which is not ready.",
                "Its tools join a later round.",
            )

    def announce_joined(self) -> None:
        """Notify which late servers became ready; called before each round."""
        ready = {connection.config.name for connection in self._servers if connection.is_ready}
        joined = sorted(self._late_servers & ready)
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        self._late_servers &= starting - ready
        if joined:
            self._notify("info", f"{_join_names(joined).capitalize()} joined; its tools are now available.", "")


def _join_names(names: list[str]) -> str:
    noun = "the server" if len(names) == 1 else "the servers"
    return f"{noun} {', '.join(map(repr, names))}"
