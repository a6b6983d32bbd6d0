"""Tests of the script that relays the messages of a page, run by Node.js with stand-ins for the browser."""

import json
import subprocess
from pathlib import Path

from mcphost.apps import outer_page
from tests.peers.node import node_executable

SCRIPT = Path(__file__).parent / "bridge_script.mjs"


def test_only_messages_of_the_frame_are_relayed_and_all_are_bounded() -> None:
    bridge = Path(outer_page.__file__).parent / "bridge.js"
    done = subprocess.run(
        [node_executable(), str(SCRIPT), str(bridge)], capture_output=True, text=True, timeout=30, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["url"] == "/t/s/events?width=640"
    assert (seen["early"], seen["src"]) == (None, "/page/"), "the page is loaded once mcphost can answer it"
    assert seen["ignored"] == 0
    assert seen["posted"] == [["/t/s/messages", {"jsonrpc": "2.0", "id": 2, "method": "ping"}]]
    assert seen["heights"] == ["334px", "80px", "10000px", "10000px", "10000px"]
    assert seen["refused"] == [[3, -32000, "*"], [4, -32000, "*"]]
    assert seen["delivered"] == [{"jsonrpc": "2.0", "id": 2, "result": {}}, "*"]
    assert seen["resized"] == [[], [500], [], [700]]
    assert seen["closed"] == [True, True, "This page is closed.", False, 0]
