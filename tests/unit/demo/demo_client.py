"""A minimal client for the demo server that writes and reads raw JSON lines."""

import json
import subprocess
from typing import Any

META_PREFIX = "io.modelcontextprotocol/"


CLIENT_INFO = {"name": "t", "version": "1"}


REQUEST_META = {
    f"{META_PREFIX}protocolVersion": "2026-07-28",
    f"{META_PREFIX}clientCapabilities": {},
    f"{META_PREFIX}clientInfo": CLIENT_INFO,
}


class DemoClient:
    """A client for the demo server that writes and reads raw JSON lines."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.ids = 0

    def write(self, message: Any) -> None:
        raw = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        assert self.process.stdin
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, params: Any = None, *, modern: bool = False) -> Any:
        self.ids += 1
        full = (
            {**(params or {}), "_meta": {**REQUEST_META, **(params or {}).get("_meta", {})}} if modern else params or {}
        )
        self.write({"id": self.ids, "method": method, "params": full})
        answer = self.read()
        assert answer["id"] == self.ids
        return answer

    def hello(self, version: str = "2025-11-25", capabilities: Any = None) -> Any:
        who = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": {"name": "t"}}
        answer = self.ask("initialize", who)
        self.write({"method": "notifications/initialized"})
        return answer["result"]

    def call(self, name: str, arguments: Any, *, modern: bool = False) -> Any:
        return self.ask("tools/call", {"name": name, "arguments": arguments}, modern=modern)
