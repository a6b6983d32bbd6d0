"""Tests that text from a hostile server reaches the terminal only as visible marks, never as control bytes."""

import json
import re
import sys
from pathlib import Path

import pytest

from tests.terminal.terminal import Terminal

HOSTILE = r"""
import json, sys
EVIL = "\x1b]52;c;TEFLQUs=\x07\x1b[2J\x9b31mLEAK \u202erab\u202c \u200bzero [bold]x[/bold] [/] <div> Vec<T>"
def send(m): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\n"); sys.stdout.flush()
print("\x1b[2JLEAK banner", file=sys.stderr, flush=True)
print("\x1b[2JLEAK not json", flush=True)
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    method = m["method"]
    if method == "initialize":
        offers = {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}
        r = {"protocolVersion": "2025-11-25", "capabilities": offers, "instructions": EVIL,
             "serverInfo": {"name": EVIL, "version": EVIL, "title": EVIL}}
        send({"method": "notifications/message", "params": {"level": EVIL, "logger": EVIL, "data": EVIL}})
    elif method == "tools/list":
        schema = {"type": "object", "properties": {EVIL: {"type": "string", "description": EVIL}}}
        r = {"tools": [{"name": "big", "title": EVIL, "description": EVIL, "inputSchema": schema},
                       {"name": EVIL, "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        token = (m["params"].get("_meta") or {}).get("progressToken")
        if token is not None:
            send({"method": "notifications/progress",
                  "params": {"progressToken": token, "progress": 1, "total": 2, "message": EVIL}})
        if m["params"]["name"] == "big":
            r = {"content": [{"type": "text", "text": "\n".join(f"{n} {EVIL}" for n in range(100_000))}]}
        else:
            send({"id": m["id"], "error": {"code": -32000, "message": EVIL}})
            continue
    elif method == "resources/list":
        r = {"resources": [{"uri": "x://a" + EVIL, "name": EVIL, "title": EVIL, "description": EVIL, "mimeType": EVIL}]}
    elif method == "resources/read":
        r = {"contents": [{"uri": m["params"]["uri"], "text": EVIL, "mimeType": EVIL}]}
    elif method == "prompts/list":
        arguments = [{"name": EVIL, "title": EVIL, "description": EVIL, "required": True}]
        r = {"prompts": [{"name": EVIL, "title": EVIL, "description": EVIL, "arguments": arguments}]}
    else:
        send({"id": m["id"], "error": {"code": -32601, "message": EVIL}})
        continue
    send({"id": m["id"], "result": r})
"""
LEAKS = (b"\x1b]52", b"\x1b[2JLEAK", b"\x9b31m", "\u009b".encode(), "\u202e".encode(), "\u200b".encode())


@pytest.mark.req("sec.terminal-escape")
@pytest.mark.timeout(240)
def test_no_byte_of_a_hostile_server_acts_on_the_terminal(terminal: Terminal, tmp_path: Path) -> None:
    script = tmp_path / "hostile.py"
    script.write_text(HOSTILE)
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"evil": {"command": sys.executable, "args": [str(script)]}}}))
    raw = tmp_path / "raw"
    terminal.tmux("pipe-pane", f"cat > {raw}")
    terminal.start_chat("--mcp-config", str(config))
    terminal.wait_for("1/1 server")
    terminal.type("!evil/big")
    terminal.press("Enter")
    terminal.wait_for("more lines", "LEAK")
    for key, place in (("F3", "implementation"), ("F4", "x://a"), ("F5", "required")):
        terminal.press(key)
        screen = terminal.wait_for(place, "LEAK")
        assert "␛" in screen
        terminal.press("Escape")
        terminal.wait_until(lambda screen, place=place: place not in screen, "the page closed")
    terminal.press("F5")
    terminal.wait_for("required")
    terminal.press("Enter")
    terminal.wait_for("Insert", "LEAK")
    terminal.press("Escape")
    terminal.press("Escape")
    terminal.press("C-q")
    terminal.wait_for_shell()
    data = raw.read_bytes()
    assert "␛".encode() in data
    found = [leak for leak in LEAKS if leak in data]
    shown = [data[at.start() - 80 : at.end() + 40] for leak in found for at in re.finditer(re.escape(leak), data)]
    assert not found, shown[:3]
