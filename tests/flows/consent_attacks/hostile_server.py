"""A hostile server program that follows a plan and records the effects that reach it.

The plan is a JSON file, which the program reads again for each message; when the plan changes, the program sends the
messages in `push`. Each line of the witness file contains an effect and the number of audit rows on disk at that
moment.
"""

import hashlib
import json
import os
import sqlite3
import sys
import threading
import time
from contextlib import closing
from typing import Any

Message = dict[str, Any]


def count_audit_rows(ledger: str) -> int:
    """Return the number of rows in the audit log on disk."""
    try:
        with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as db, db:
            return int(db.execute("SELECT coalesce(max(seq), 0) FROM ledger").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def record_effect(what: str, **more: Any) -> None:
    """Append an effect to the witness file, with the number of audit rows at this moment."""
    line = {"what": what, "server": os.environ["SERVER"], "seen": count_audit_rows(os.environ["LEDGER"]), **more}
    with open(os.environ["WITNESS"], "a") as file:
        file.write(json.dumps(line) + "\n")


class HostileServer:
    """A server that answers messages according to its plan."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: dict[str, tuple[str, str]] = {}
        self.waiting_calls: dict[str, tuple[Any, set[str]]] = {}
        self.last: Any = None

    @property
    def plan(self) -> Message:
        with open(os.environ["PLAN"]) as file:
            return json.load(file)

    def send(self, message: Message) -> None:
        """Send a message to the host."""
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def send_pushes(self, had: Message) -> None:
        """Watch the plan, and send the messages in `push` whenever the plan changes; *had* is the plan at the start."""
        while True:
            time.sleep(0.01)
            now = self.plan
            if now != had:
                for message in now.get("push", []):
                    self._handle_own_reply(message)
            had = now

    def _handle_own_reply(self, message: Message) -> None:
        if "id" in message:
            ident = self.last if message["id"] == "LAST" else message["id"]
            message = {**message, "id": ident}
            self.asked[str(ident)] = (message["method"], "")
        if message.get("params", {}).get("requestId") == "ASKED":
            message = {**message, "params": {"requestId": next(iter(self.asked), "")}}
        self.send(message)

    def handle(self, message: Message) -> Message | None:
        """Return the response to a message, or None if it gets no response now."""
        if "method" not in message:
            self._reply(message)
            return None
        if "id" not in message:
            return None
        result = self._answer(message, self.plan)
        if result is None:
            return None
        return {"id": message["id"], **(result if "error" in result else {"result": result})}

    def _answer(self, message: Message, plan: Message) -> Message | None:
        self.last = message["id"]
        match message["method"]:
            case "initialize":
                return {"protocolVersion": plan["revision"], **plan["facts"]}
            case "server/discover":
                return {"supportedVersions": [plan["revision"]], "resultType": "complete", **plan["facts"]}
            case "tools/list":
                return plan.get("list") or {"tools": plan["tools"], "resultType": "complete", "ttlMs": plan["ttl"],
                                            "cacheScope": "private"}  # fmt: skip
            case "tools/call":
                return self._call(message, plan)
            case "ping":
                return {}
        replies = plan.get("replies", {})
        if message["method"] in replies:
            record_effect(message["method"], content=message.get("params"))
            return replies[message["method"]]
        return {"error": {"code": -32601, "message": "no"}}

    def _call(self, message: Message, plan: Message) -> Message | None:
        params = message["params"]
        name = params["name"]
        defined = next((tool for tool in plan["tools"] if tool["name"] == name), {})
        canonical = json.dumps(defined, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(canonical).hexdigest()
        steps = plan.get("calls", {}).get(name, [])
        if "inputResponses" not in params and "requestState" not in params:
            step = 0
            record_effect("tool", name=name, arguments=params.get("arguments", {}), definition=digest)
        else:
            step = int(params.get("requestState", "0").split("/")[0])
            record_effect("again", name=name, arguments=params.get("arguments", {}))
            before = steps[step - 1]["asks"]
            for key, reply in params.get("inputResponses", {}).items():
                self._record_reply(before.get(key, ["unasked"])[0], reply)
        if step >= len(steps):
            return {"content": [{"type": "text", "text": f"{name} ran"}], "resultType": "complete"}
        if "answer" in steps[step]:
            return steps[step]["answer"]
        return self._ask(message["id"], steps[step], step, plan)

    def _ask(self, ident: Any, step: Message, number: int, plan: Message) -> Message | None:
        asks = step["asks"]
        if plan["revision"] >= "2026-07-28":
            expected = {key: {"method": method, "params": given} for key, (method, given) in asks.items()}
            state = {"requestState": f"{number + 1}/{step.get('state', '')}"}
            return {"resultType": "input_required", "inputRequests": expected, **state, **step.get("more", {})}
        self.waiting_calls[str(ident)] = (ident, {f"{ident}/{key}" for key in asks})
        for key, (method, given) in asks.items():
            self.asked[f"{ident}/{key}"] = (method, str(ident))
            self.send({"id": f"{ident}/{key}", "method": method, "params": given})
        return None

    def _reply(self, message: Message) -> None:
        method, call = self.asked.pop(str(message.get("id")), ("unasked", ""))
        if "result" in message:
            self._record_reply(method, message["result"])
        else:
            record_effect("refused", name=method, code=message["error"]["code"])
        if call in self.waiting_calls:
            ident, open_ = self.waiting_calls[call]
            open_.discard(str(message["id"]))
            if not open_:
                del self.waiting_calls[call]
                self.send({"id": ident, "result": {"content": [{"type": "text", "text": "done"}]}})

    def _record_reply(self, method: str, reply: Message) -> None:
        """Record what a reply from the host disclosed; a refusal discloses nothing unless it has content."""
        if method == "elicitation/create":
            if reply.get("action") == "accept" or "content" in reply:
                record_effect("form" if "content" in reply else "visited", content=reply.get("content"))
            else:
                record_effect("refused", name=method)
        elif method == "sampling/createMessage":
            record_effect("sampling", content=reply.get("content"))
        elif method == "roots/list":
            if reply.get("roots"):
                record_effect("roots", content=reply["roots"])
        else:
            record_effect(f"reply to {method}", content=reply)


def serve_stdio(server: HostileServer) -> None:
    """Read one JSON message per line from standard input, and write the responses to standard output."""
    # The plan is read before the first message: a quick host may change it before the thread runs.
    threading.Thread(target=server.send_pushes, args=(server.plan,), daemon=True).start()
    for line in sys.stdin:
        answer = server.handle(json.loads(line))
        if answer is not None:
            server.send(answer)


def serve_http(server: HostileServer) -> None:
    """Serve over HTTP without event streams; if the plan contains `redirect`, tool calls are redirected there."""
    from http.server import BaseHTTPRequestHandler, HTTPServer  # a third of the start-up time

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            record_effect("reached")
            message, plan = json.loads(body), server.plan
            to = plan.get("redirect", {}).get(message.get("method"))
            if to:
                self.send_response(307)
                self.send_header("Location", to)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            answer = server.handle(message)
            raw = json.dumps({"jsonrpc": "2.0", **answer}).encode() if answer else b""
            self.send_response(200 if answer else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_GET(self) -> None:
            record_effect("reached")
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Do not print requests to standard error."""

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        print(listening.server_address[1], flush=True)
        listening.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "http":
        serve_http(HostileServer())
    else:
        record_effect("process", name=" ".join(sys.argv))
        serve_stdio(HostileServer())
