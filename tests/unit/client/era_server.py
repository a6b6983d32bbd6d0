"""A scripted stdio server for tests of era negotiation: `era_server.py KIND DELAY NOTES`.

The server waits DELAY seconds before it reads anything, and adds a line to the file NOTES for each start and message.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

KIND, DELAY, NOTES = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
MODERN = "io.modelcontextprotocol/protocolVersion"
INFO = {"name": KIND, "version": "1"}
DISCOVERY = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def record_note(text: str) -> None:
    with NOTES.open("a") as file:
        file.write(text + "\n")


def write_message(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def send_error(ident: Any, code: int, data: Any = None) -> None:
    write_message(id=ident, error={"code": code, "message": "no", **({"data": data} if data else {})})


def answer_handshake(ident: Any, message: dict[str, Any]) -> None:
    """Answer as a server of the handshake era that does not support the stateless era."""
    params = message.get("params") or {}
    if message["method"] == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": INFO}
        write_message(id=ident, result=result)
    elif message["method"] == "tools/call" and MODERN not in params.get("_meta", {}):
        write_message(id=ident, result={"content": [{"type": "text", "text": "handshake"}]})
    elif KIND == "legacy, dies":
        os._exit(9)
    elif KIND == "legacy, refuses":
        send_error(ident, -32601)
    # All others ignore unknown messages.


def answer_stateless(ident: Any, message: dict[str, Any]) -> None:
    """Answer as a server of the stateless era."""
    if message["method"] == "server/discover":
        write_message(id=ident, result=DISCOVERY)
    elif message["method"] == "initialize":
        if "ignores initialize" not in KIND:
            send_error(ident, -32022, {"supported": ["2026-07-28"], "requested": "2025-11-25"})
    else:
        write_message(id=ident, result={"resultType": "complete", "content": [{"type": "text", "text": "stateless"}]})


def main() -> None:
    record_note("started")
    if KIND == "dual, talks first":
        print("starting ...", file=sys.stderr, flush=True)
    time.sleep(DELAY)
    if KIND == "exits at once":
        print("no license", file=sys.stderr, flush=True)
        sys.exit(3)
    held: list[dict[str, Any]] = []
    met = Path(f"{NOTES}.met")  # whether an earlier process got both openings
    pinned = ""
    for line in sys.stdin:
        message = json.loads(line)
        record_note(message["method"])
        held.append(message)
        if KIND.endswith("waits for both") and message["method"] == "server/discover" and not met.exists():
            continue
        met.touch()
        while held:
            one = held.pop(0)
            if "id" not in one:
                continue
            if KIND.startswith("legacy"):
                answer_handshake(one["id"], one)
                continue
            if KIND.startswith("dual") and not pinned and one["method"] != "server/discover":
                pinned = "handshake" if one["method"] == "initialize" else "stateless"
            (answer_handshake if pinned == "handshake" else answer_stateless)(one["id"], one)


if __name__ == "__main__":
    main()
