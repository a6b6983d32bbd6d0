"""Tests for turns on the pipe while a server waits for the user or does not answer."""

from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.flows.program import DEMO, Program
from tests.flows.sign_in_program import SignedInServer
from tests.unit.auth.oauth_peer import run_peer

pytestmark = pytest.mark.anyio
LATE = "Starting without the server 'tracker', which is not ready."


async def test_a_turn_begins_while_the_sign_in_question_of_a_server_is_open(program: Program) -> None:
    program.configure_secret_store("session")
    async with run_peer(kind=SignedInServer) as peer:
        config = program.servers(demo=DEMO, tracker={"url": peer.url})

        def drive() -> Any:
            with program.pipe("--model", "demo", "--mcp-config", config) as pipe:
                pipe.ask("connect", server="demo")
                sign_in = pipe.event("question", kind="sign_in")["question"]
                sent = pipe.send("send", text="what is 2 + 40?")
                call = pipe.event("question", kind="approve_tool")["question"]
                pipe.ask("answer", question=call, answer="once")
                result = pipe.result(sent)
                still_open = pipe.ask("answer", question=sign_in, answer="deny")["ok"]
                told = [event["text"] for event in pipe.events if event["event"] == "told"]
                pipe.ask("quit")
            return result, still_open, told

        result, still_open, told = await anyio.to_thread.run_sync(drive)
    assert "42" in result["result"]["text"]
    assert still_open
    assert told.count(LATE) == 1
    assert peer.forms == []
