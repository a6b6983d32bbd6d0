"""A server that requests the user's shared folders (roots).

With `start`, it sends the request right after the handshake; with `list`, it sends another one after each change; with
`withdraw`, it cancels its first request; with `stubborn`, it lists its tools only after a reply. The tool `where`
returns the known folders, `ask` requests them first, `flood` requests them 200 times, and `die` ends the program.
"""

import json
import sys
from typing import Any

ASKS_AT_START, ASKS_ON_CHANGE, CANCELS_FIRST, DELAYS_TOOLS = (
    word in sys.argv for word in ("start", "list", "withdraw", "stubborn")
)
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("where", "ask", "flood", "die")]
FLOOD_COUNT = 200


class RootsServer:
    """The state of the server and its messages to the client."""

    def __init__(self) -> None:
        self.known: Any = None
        self.calls: dict[str, int] = {}
        self.count = 0
        self.listing: list[int] = []
        self.flooding: int | None = None
        self.reply_counts = {"refused": 0, "told": 0}

    def send(self, **message: Any) -> None:
        """Write one message."""
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    def ask(self, call: int | None = None) -> None:
        """Request the roots; with *call*, respond to this call when the reply arrives."""
        self.count += 1
        if call is not None:
            self.calls[f"r{self.count}"] = call
        self.send(id=f"r{self.count}", method="roots/list")

    def answer(self, call: int) -> None:
        """Respond to a call with the folders in the last reply, or with its error message."""
        self.reply(call, self.known)

    def reply(self, call: int, what: Any) -> None:
        """Respond to a call with *what* as JSON text."""
        self.send(id=call, result={"content": [{"type": "text", "text": json.dumps(what)}]})

    def call(self, name: str, ident: int) -> None:
        """Run the tool *name* for the call *ident*."""
        if name == "ask":
            self.ask(ident)
        elif name == "flood":
            self.flooding = ident
            self.ask()
        elif name == "die":
            sys.exit(1)
        else:
            self.answer(ident)

    def handle_reply(self, ident: str, message: dict[str, Any]) -> None:
        """Store the folders in a reply to a roots request, and respond to the calls that wait for them."""
        error = message.get("error")
        self.known = error["message"] if error else [root["uri"] for root in message["result"]["roots"]]
        if ident in self.calls:
            self.answer(self.calls.pop(ident))
        for listing in self.listing:
            self.send(id=listing, result={"tools": TOOLS})
        self.listing.clear()
        if self.flooding is not None:
            self.reply_counts["refused" if error else "told"] += 1
            if sum(self.reply_counts.values()) == FLOOD_COUNT:
                self.reply(self.flooding, self.reply_counts)
            else:
                self.ask()

    def handle(self, message: dict[str, Any]) -> None:
        """Handle one message from the client."""
        method, ident = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": "folders", "version": "1"}
            version = message["params"]["protocolVersion"]
            self.send(id=ident, result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
        elif (method == "notifications/initialized" and ASKS_AT_START) or (
            method == "notifications/roots/list_changed" and ASKS_ON_CHANGE
        ):
            self.ask()
            if method == "notifications/initialized" and CANCELS_FIRST:
                self.send(method="notifications/cancelled", params={"requestId": "r1"})
                self.send(method="notifications/message", params={"level": "info", "data": "taken back"})
        elif method == "tools/list" and DELAYS_TOOLS and self.known is None:
            self.listing.append(message["id"])
        elif method == "tools/list":
            self.send(id=ident, result={"tools": TOOLS})
        elif method == "tools/call":
            self.call(message["params"]["name"], message["id"])
        elif method is None and isinstance(ident, str):
            self.handle_reply(ident, message)
        elif ident is not None:
            self.send(id=ident, error={"code": -32601, "message": "no"})


if __name__ == "__main__":
    server = RootsServer()
    for line in sys.stdin:
        server.handle(json.loads(line))
