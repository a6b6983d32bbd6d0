"""Tests for editing a call's arguments in an external editor, which uses the terminal meanwhile."""

import json
import os
import signal
import sys
from pathlib import Path

from tests.terminal.demo_program import MCPHOST_PATH, ask_demo, open_demo, quit_program
from tests.terminal.terminal import Terminal, wait_gone

EDITOR = """
import os, signal, sys
def interrupted(*_):
    print("INTERRUPTED", flush=True)
signal.signal(signal.SIGINT, interrupted)
path = sys.argv[-1]
modes = [oct(os.stat(one).st_mode & 0o777) for one in (path, os.path.dirname(path))]
print("EDITING", sys.argv[1], *modes, flush=True)
text = open(path).read()
for line in sys.stdin:
    open(path, "w").write(text.replace(*line.split()))
    sys.exit(0 if line.split()[0] != "fail" else 3)
"""

ASKER = """
import json, sys, threading, time
from pathlib import Path
go, heard = map(Path, sys.argv[1:])
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def wait():
    while not go.exists():
        time.sleep(0.02)
    name = {"type": "object", "properties": {"name": {"type": "string"}}}
    say(id="form", method="elicitation/create", params={"message": "(who are you)", "requestedSchema": name})
    for number in range(200):
        say(method="notifications/message", params={"level": "error", "data": f"(line {number})"})
    say(method="notifications/tools/list_changed")
    say(id="ping", method="ping")
tools = []
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        given = {"tools": {"listChanged": True}, "logging": {}}
        said = {"protocolVersion": "2025-06-18", "capabilities": given, "serverInfo": {"name": "a", "version": "1"}}
    elif method == "tools/list":
        if go.exists():
            heard.touch()
        said = {"tools": tools}
        if not tools:
            tools.append({"name": "late", "inputSchema": {"type": "object"}})
            threading.Thread(target=wait, daemon=True).start()
    else:
        said = {}
    if method and "id" in message:
        say(id=message["id"], result=said)
"""


def test_events_during_an_open_editor_wait_for_its_end(tmp_path: Path) -> None:
    editor, asker, go, heard = (tmp_path / name for name in ("editor.py", "asker.py", "go", "heard"))
    editor.write_text(EDITOR)
    asker.write_text(ASKER)
    entry = {
        "command": sys.executable, "args": [str(asker), str(go), str(heard)], "mcphost": {"era": "handshake"},
    }  # fmt: skip
    demo = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"demo": demo, "asker": entry}}))
    with Terminal(tmp_path, environment={"VISUAL": f"'{sys.executable}' '{editor}'"}) as terminal:
        terminal.run(MCPHOST_PATH, "--model", "demo", "--mcp-config", str(config))
        terminal.wait_for("2/2 servers")
        ask_demo(terminal, "what is 2 + 40?")
        terminal.press("e")
        terminal.wait_for("Edit the arguments of demo", "ctrl+g python")
        terminal.press("C-g")
        terminal.wait_for("EDITING")
        go.touch()
        terminal.wait_until(lambda _: heard.exists(), "that the host heard all of it")
        screen = terminal.screen()
        assert "EDITING" in screen
        assert "(who are you)" not in screen
        assert "2/2 servers" not in screen
        terminal.type("40 41")
        terminal.press("Enter")
        terminal.wait_until(lambda screen: "ctrl+s apply" in screen and "41" in screen, "what it left")
        terminal.press("C-s")
        terminal.wait_for_question("edited by you: 1 changed", "question 1 of 2")
        terminal.press("a")
        terminal.wait_for_question("(who are you)")
        terminal.press("Escape")
        terminal.wait_for("= 43", "2/2 servers")
        quit_program(terminal)


def test_arguments_are_edited_in_the_users_editor_and_the_screen_is_always_restored(
    tmp_path: Path,
) -> None:
    script, places = tmp_path / "an editor.py", tmp_path / "places"
    script.write_text(EDITOR)
    places.mkdir()
    own = {"VISUAL": f"'{sys.executable}' '{script}' --wait", "XDG_RUNTIME_DIR": str(places)}
    with Terminal(tmp_path, environment=own) as terminal:
        open_demo(terminal)
        ask_demo(terminal, "what is 2 + 40?")
        terminal.press("e")
        terminal.wait_for("Edit the arguments of demo", "ctrl+g python")
        edited = 0

        def edit() -> None:
            nonlocal edited
            edited += 1
            terminal.press("C-g")
            # Its earlier output is still on the screen that it shares with the shell.
            terminal.wait_until(lambda screen: screen.count("EDITING --wait 0o600 0o700") == edited, "the editor")

        edit()
        terminal.press("C-c")
        terminal.wait_for("INTERRUPTED")
        terminal.type("40 50,,")
        terminal.press("Enter")
        terminal.wait_for("not valid JSON: line 3", "ctrl+s apply")
        edit()
        terminal.type("fail fail")
        terminal.press("Enter")
        terminal.wait_for("exited with status 3", "50,,")
        edit()
        terminal.type("50,, 50")
        terminal.press("Enter")
        terminal.wait_until(lambda screen: "ctrl+s apply" in screen and "50,," not in screen, "what it left")
        terminal.press("C-s")
        terminal.wait_for_question("edited by you: 1 changed", "asked for  40", "a once")
        terminal.press("e")
        terminal.wait_for("ctrl+s apply")
        edit()
        assert len(list(places.glob("mcphost-*/arguments.json"))) == 1
        processes = terminal.processes()
        os.kill(terminal.program().pid, signal.SIGTERM)
        terminal.wait_until(lambda _: terminal.is_plain(), "the terminal as it was")
        terminal.wait_for_shell()
        wait_gone(processes, seconds=30)
        assert list(places.glob("mcphost-*/arguments.json")) == []


def test_a_message_is_edited_in_the_users_editor_and_sent_only_by_the_user(tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text(EDITOR)
    with Terminal(tmp_path, environment={"EDITOR": f"'{sys.executable}' '{editor}'"}) as terminal:
        open_demo(terminal)
        terminal.type("written")
        terminal.wait_for("written")
        edits = (("fail fail", "exited with status 3"), ("written changed", "changed"), ("changed /quit", "/quit"))
        for number, (typed, shown) in enumerate(edits, 1):
            terminal.press("C-g")
            terminal.wait_until(lambda screen, number=number: screen.count("EDITING") == number, "the editor")
            terminal.type(typed)
            terminal.press("Enter")
            terminal.wait_for(shown, "ctrl+q quit")
            assert "You  " not in terminal.screen()
        terminal.wait_between_keys()
        terminal.press("Enter")
        terminal.wait_for("You  ", "/quit", "I don't have a rule")
        terminal.wait_for_turn_end()
        quit_program(terminal)
