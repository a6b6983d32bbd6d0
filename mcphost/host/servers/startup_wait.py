"""How long a turn waits for servers that are starting, and what the person is told of those that come later."""

from collections.abc import Callable, Iterable

import anyio

from mcphost.host.servers.connection import ServerConnection


class ServerStartup:
    """Lets a turn begin without the servers that are slow to start; their tools join a later round."""

    def __init__(
        self, servers: Iterable[ServerConnection], seconds: float, notify: Callable[[str, str, str], None]
    ) -> None:
        """`seconds`: the longest wait for one server, from the beginning of its start. `tell`: see Host.notify."""
        self._servers = servers
        self._seconds = seconds
        self._notify = notify
        self._late_servers: set[str] = set()

    async def wait(self) -> None:
        """Wait for servers that are starting and tell which ones the turn begins without. May be cancelled."""
        async with anyio.create_task_group() as tasks:
            for connection in self._servers:
                tasks.start_soon(connection.wait_for_start, self._seconds)
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        new = sorted(starting - self._late_servers)
        self._late_servers |= starting
        if new:
            self._notify(
                "info",
                f"The turn begins without {_join_names(new)}, still starting.",
                "The tools join the next round once they are there.",
            )

    def announce_joined(self) -> None:
        """Tell of servers that became ready since a turn began without them; called before each round."""
        ready = {connection.config.name for connection in self._servers if connection.is_ready}
        joined = sorted(self._late_servers & ready)
        starting = {connection.config.name for connection in self._servers if connection.is_starting}
        self._late_servers &= starting - ready
        if joined:
            self._notify("info", f"{_join_names(joined).capitalize()} joined: the model has its tools from now on.", "")


def _join_names(names: list[str]) -> str:
    noun = "the server" if len(names) == 1 else "the servers"
    return f"{noun} {', '.join(map(repr, names))}"
