"""A stdio server in plain Python that has at most one fault, chosen on the command line.

It implements the handshake era and answers `server/discover` with error -32601; with the fault `modern`, it implements
only 2026-07-28.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FAULT = sys.argv[1] if len(sys.argv) > 1 else ""
NOTE = sys.argv[2] if len(sys.argv) > 2 else ""  # a file for notes


def write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(message: dict[str, Any]) -> None:
    write_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def send_result(ident: Any, result: Any) -> None:
    send({"id": ident, "result": result})


def write_note(text: str) -> None:
    with open(NOTE, "a") as file:
        file.write(text + "\n")


def text_result(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def on_start() -> None:
    if FAULT == "missing for a while" and Path(NOTE + ".gone").exists():
        Path(NOTE + ".gone").unlink()
        sys.exit(6)
    if FAULT == "dies at start":
        print("cannot read licence.key", file=sys.stderr, flush=True)
        sys.exit(3)
    if FAULT == "ignores SIGTERM":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAULT == "leaves a grandchild":
        # It holds our standard output open and ignores signals to its parent.
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
        write_note(str(child.pid))
    if FAULT == "banner":
        for number in range(50):
            write_bytes(f"Loading module {number} ...\n".encode())
    if FAULT == "stderr flood":
        sys.stderr.write("warning: noise\n" * 200_000)
        sys.stderr.flush()


def initialize(message: dict[str, Any]) -> None:
    if FAULT == "modern, dies of initialize":
        os._exit(9)
    if FAULT == "modern":
        send(
            {
                "id": message["id"],
                "error": {
                    "code": -32022,
                    "message": "Unsupported protocol version",
                    "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"},
                },
            }
        )
        return
    revision = message["params"]["protocolVersion"]
    if FAULT.startswith("revision "):
        revision = FAULT.removeprefix("revision ")
    result = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": {"name": "faulty"}}
    if FAULT == "BOM and CRLF":
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        write_bytes(b"\xef\xbb\xbf" + body + b"\r\n\r\n")
        return
    send_result(message["id"], result)


def discover(message: dict[str, Any]) -> None:
    if FAULT == "silent on discover" or FAULT == "never answers":
        return
    if FAULT == "dies of discover" or FAULT == "dies of discover always":
        print("unknown method, giving up", file=sys.stderr, flush=True)
        os._exit(9)
    if FAULT.startswith("modern"):
        time.sleep(0.4)  # later than the hedged opening
        send_result(
            message["id"],
            {
                "resultType": "complete",
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
            },
        )
        return
    code = -32020 if FAULT == "header mismatch" else -32601
    send({"id": message["id"], "error": {"code": code, "message": "no"}})


def tool(message: dict[str, Any]) -> None:  # noqa: C901 - one branch for each fault
    ident, name = message["id"], message["params"]["name"]
    arguments = message["params"].get("arguments", {})
    if name == "echo":
        send_result(ident, text_result(arguments["text"]))
    elif name == "die":
        print("out of memory", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "half":
        write_bytes(b'{"jsonrpc":"2.0","id":%d,"resu' % ident)
        sys.exit(4)
    elif name == "close output":
        os.close(1)
        time.sleep(60)
    elif name == "close input":
        os.close(0)
        time.sleep(60)
    elif name == "leave input open":
        # Another process keeps the full pipe open when this one ends.
        child = subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(120)"])
        write_note(f"daemon {child.pid}")
        while not Path(NOTE + ".go").exists():
            time.sleep(0.02)
        os._exit(5)
    elif name == "silent":
        pass
    elif name == "stop reading":
        time.sleep(60)
    elif name == "print before reading":
        for _ in range(arguments["count"]):
            time.sleep(0.1)
            print("working", file=sys.stderr, flush=True)
        send_result(ident, text_result("done"))
    elif name == "huge":
        line = b"x" * 1_000_000
        try:
            for _ in range(100):
                write_bytes(line)
        except BrokenPipeError:
            os._exit(0)
    elif name == "bad utf-8":
        write_bytes(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\xff\xfeb"}]}}\n' % ident)
    elif name == "both":
        send({"id": ident, "result": {}, "error": {"code": 1, "message": "x"}})
    elif name == "string id":
        send_result(str(ident), text_result("wrong"))
        send_result(ident + 500_000_000, text_result("unknown"))
        send_result(ident, text_result("right"))
        send_result(ident, text_result("twice"))
    elif name == "deep":
        write_bytes(b'{"jsonrpc":"2.0","id":%d,"result":%s%s}\n' % (ident, b"[" * 100_000, b"]" * 100_000))
    elif name == "wrong shape":
        send_result(ident, {"content": "not a list"})
    elif name == "pretty":
        write_bytes(json.dumps({"jsonrpc": "2.0", "id": ident, "result": text_result("x")}, indent=2).encode() + b"\n")
    elif name == "raw":
        for line in arguments["lines"]:
            write_bytes(line.replace("@", str(ident)).encode("utf-8", "surrogatepass") + b"\n")
    elif name == "flood":
        write_bytes((arguments["line"].encode("unicode_escape") + b"\n") * arguments["count"])
        send_result(ident, text_result("flooded"))
    elif name == "flood errors":
        sys.stderr.write("x\n" * arguments["count"] + "the end\n")
        sys.stderr.flush()
        os._exit(8)
    elif name == "drip":
        for byte in json.dumps({"jsonrpc": "2.0", "id": ident, "result": text_result("dripped")}).encode() + b"\n":
            write_bytes(bytes([byte]))
    elif name == "daemon":
        # It leaves the process group, keeps our standard output open, and outlives this process.
        code = "import os, time; os.setsid(); time.sleep(120)"
        child = subprocess.Popen([sys.executable, "-c", code])
        write_note(f"daemon {child.pid}")
        time.sleep(0.2)
        os._exit(5)
    elif name == "write without reading":
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 10_000}})
        for _ in range(arguments["count"]):
            write_bytes(line.encode() + b"\n")
        send_result(ident, text_result("read"))
    elif name == "progress":
        token = message["params"].get("_meta", {}).get("progressToken")
        for step in range(arguments["steps"]):
            time.sleep(arguments["seconds"])
            if token is not None:
                send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step + 0.5}})
        send_result(ident, text_result("done" if token is not None else "no token"))
    elif name == "ask":
        send({"id": arguments.get("id", "q1"), "method": arguments["method"], "params": arguments.get("params", {})})
        reply = json.loads(sys.stdin.buffer.readline())
        send_result(ident, text_result(json.dumps(reply)))
    elif name == "error":
        send({"id": ident, "error": {"code": -32602, "message": "y" * 5000, "data": {"why": [1, 2]}}})
    elif name == "kind":
        send_result(ident, {"resultType": arguments["kind"], **text_result("x")})
    else:
        send({"id": ident, "error": {"code": -32602, "message": f"no tool {name}"}})


def main() -> None:
    on_start()
    for line in sys.stdin.buffer:
        if NOTE:
            write_note(line.decode().strip())
        message = json.loads(line)
        method = message.get("method")
        if FAULT == "never answers":
            continue
        if method == "initialize":
            initialize(message)
        elif method == "server/discover":
            discover(message)
        elif method == "tools/call":
            tool(message)
        elif method == "tools/list":
            names = ("echo", "silent") if FAULT == "lists silent" else ("echo",)
            send_result(message["id"], {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
            if FAULT == "dies after its list":
                print("crashed again", file=sys.stderr, flush=True)
                os._exit(7)
    if FAULT in ("ignores SIGTERM", "ignores end of input"):
        time.sleep(120)


if __name__ == "__main__":
    main()
