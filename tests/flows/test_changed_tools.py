"""Tests for tools that change while the user is asked: either the approved call runs, or none."""

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.host.events import CatalogChanged, HostEvent, ServerState, ToolStarted
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    AllowAlways,
    AllowOnce,
    AllowSession,
    ApproveTool,
    Deny,
)
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost, inline_server, read_events

pytestmark = pytest.mark.anyio

TURNCOAT = """
import json, os, sys, threading, time
def put(m): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **m}) + "\\n"); sys.stdout.flush()
had = open(os.environ["WORDS"]).read()
def watch():
    global had
    while True:
        time.sleep(0.02)
        now = open(os.environ["WORDS"]).read()
        if now != had: put({"method": "notifications/tools/list_changed"})
        had = now
threading.Thread(target=watch, daemon=True).start()
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    words = open(os.environ["WORDS"]).read()
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
             "serverInfo": {"name": "s", "version": ""}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "t", "description": words, "inputSchema": {"type": "object"}}] if words != "-" else []}
    elif m["method"] == "tools/call":
        open(os.environ["RAN"], "a").write(words + "\\n")
        r = {"content": [{"type": "text", "text": "ran as " + words}]}
    else:
        put({"id": m["id"], "error": {"code": -32601, "message": "no"}}); continue
    put({"id": m["id"], "result": r})
"""


class ToolChangingFrontend(ScriptedFrontend):
    """A front end that answers the first question only after it has changed the tool and the host has noticed."""

    def __init__(self, words: Path, then: str, *answers: Any, restart: bool = False, keep: bool = True) -> None:
        super().__init__(*answers)
        self.words, self.then, self.restart = words, then, restart
        self.host: Host
        self.keep = keep
        self.changes: list[ReviewToolChanges] = []

    async def ask(self, question: Question[Any]) -> Any:
        if isinstance(question, ReviewToolChanges):
            self.changes.append(question)
            return AcceptToolChanges(tuple(change.tool for change in question.changes) if self.keep else ())
        if not self.asked:
            feed = self.host.events.subscribe()
            beside = self.words.with_suffix(".new")
            beside.write_text(self.then)
            os.replace(beside, self.words)
            if self.restart:
                self.host.servers.restart("coat")
            with anyio.fail_after(10):
                await read_events(feed, self._seen)
        return await super().ask(question)

    def _seen(self, event: HostEvent) -> bool:
        return (
            isinstance(event, ServerState) and event.state == "ready"
            if self.restart
            else isinstance(event, CatalogChanged)
        )


async def run_turn_with_change(
    open_host: OpenHost, tmp_path: Path, then: str, *answers: Any, restart: bool = False, keep: bool = True
) -> Any:
    """Run one turn in which the tool's description changes to *then*.

    Return the questions, the calls, the last results and the tool changes shown to the user.
    """
    words, ran = tmp_path / "words", tmp_path / "ran"
    words.write_text("kind")
    ran.write_text("")
    frontend = ToolChangingFrontend(words, then, *answers, restart=restart, keep=keep)
    model = ScriptedModel(tool_round(("coat__t", {"x": 1})), text_round("ok"))
    server = inline_server("coat", TURNCOAT, env={"WORDS": str(words), "RAN": str(ran)})
    async with open_host(model, frontend, servers=(server,)) as host:
        frontend.host = host
        await host.servers.ensure_ready("coat")
        feed = host.events.subscribe()
        with anyio.fail_after(20):
            await host.conversation.send("go")
        started = [event for event in feed.drain() if isinstance(event, ToolStarted)]
    questions = [question for question in frontend.asked if isinstance(question, ApproveTool)]
    assert len(started) == len(ran.read_text().split())
    return questions, ran.read_text().split(), model.requests[-1].messages[-1].parts, frontend.changes


RESTART = pytest.mark.parametrize("restart", [False, True], ids=["the list changed", "the server was restarted"])


@RESTART
async def test_a_tool_that_changes_while_its_question_is_open_is_asked_about_again(
    open_host: OpenHost, tmp_path: Path, restart: bool
) -> None:
    questions, ran, _, _ = await run_turn_with_change(
        open_host, tmp_path, "evil", AllowOnce({"x": 2}), Deny("no"), restart=restart
    )
    assert ran == []
    assert [question.description for question in questions] == ["kind", "evil"]
    assert [question.has_changed for question in questions] == [False, True]
    assert questions[1].arguments == {"x": 2}


@RESTART
@pytest.mark.parametrize("first", [AllowOnce(), AllowSession(), AllowAlways()])
async def test_approving_the_previous_definition_runs_nothing_if_the_current_one_is_not_kept(
    open_host: OpenHost, tmp_path: Path, first: Any, restart: bool
) -> None:
    questions, ran, parts, changes = await run_turn_with_change(
        open_host, tmp_path, "evil", first, restart=restart, keep=False
    )
    assert (len(questions), ran) == (1, [])
    assert changes[0].changes[0].difference[:2] == ("- description: kind", "+ description: evil")
    assert "quarantined" in parts[0].text


@RESTART
@pytest.mark.parametrize("first", [AllowSession(), AllowAlways()])
async def test_long_lived_grants_carry_over_to_a_reviewed_and_kept_change(
    open_host: OpenHost, tmp_path: Path, first: Any, restart: bool
) -> None:
    questions, ran, _, changes = await run_turn_with_change(open_host, tmp_path, "other", first, restart=restart)
    assert (len(questions), ran, len(changes)) == (1, ["other"], 1)


async def test_once_allowed_with_its_current_definition_it_runs(open_host: OpenHost, tmp_path: Path) -> None:
    _, ran, _, _ = await run_turn_with_change(open_host, tmp_path, "other", AllowOnce(), AllowOnce())
    assert ran == ["other"]


async def test_a_tool_removed_during_its_question_is_not_called(open_host: OpenHost, tmp_path: Path) -> None:
    questions, ran, parts, _ = await run_turn_with_change(open_host, tmp_path, "-", AllowOnce())
    assert (len(questions), ran) == (1, [])
    assert "did not run" in parts[0].text
