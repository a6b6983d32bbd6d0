"""A server that wants to know the user's folders: `start` asks right after the handshake, `list` lists again when told.

Its tool `where` answers with the folders that it knows, `ask` asks for them first.
"""

import json
import sys
from typing import Any

STARTS, LISTS = "start" in sys.argv, "list" in sys.argv
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("where", "ask")]


class Server:
    """One connection."""

    def __init__(self) -> None:
        self.known: Any = None
        self.calls: dict[str, int] = {}
        self.count = 0

    def send(self, **message: Any) -> None:
        """Write one message."""
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def ask(self, call: int | None = None) -> None:
        """Ask for the folders."""
        self.count += 1
        if call is not None:
            self.calls[f"r{self.count}"] = call
        self.send(id=f"r{self.count}", method="roots/list")

    def answer(self, call: int) -> None:
        """End a call with what is known."""
        self.send(id=call, result={"content": [{"type": "text", "text": json.dumps(self.known)}]})

    def take(self, message: dict[str, Any]) -> None:
        """Read one message."""
        method, ident = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "folders", "version": "1"}
            version = message["params"]["protocolVersion"]
            self.send(id=ident, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif (method == "notifications/initialized" and STARTS) or (
            method == "notifications/roots/list_changed" and LISTS
        ):
            self.ask()
        elif method == "tools/list":
            self.send(id=ident, result={"tools": TOOLS})
        elif method == "tools/call" and message["params"]["name"] == "ask":
            self.ask(message["id"])
        elif method == "tools/call":
            self.answer(message["id"])
        elif method is None and isinstance(ident, str):
            error = message.get("error")
            self.known = error["message"] if error else [one["uri"] for one in message["result"]["roots"]]
            if ident in self.calls:
                self.answer(self.calls.pop(ident))
        elif ident is not None:
            self.send(id=ident, error={"code": -32601, "message": "no"})


if __name__ == "__main__":
    server = Server()
    for line in sys.stdin:
        server.take(json.loads(line))
