"""Tests for a database that fails during a turn: the turn continues, and only what could not be saved is lost."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcphost.host.events import NoticeEvent
from mcphost.host.questions.questions import AllowAlways
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost

pytestmark = pytest.mark.anyio


async def test_always_allow_with_a_failing_store_lasts_for_this_run_and_is_reported(
    open_host: OpenHost, tmp_path: Path
) -> None:
    add = tool_round(("demo__add", {"a": 1, "b": 1}))
    frontend = ScriptedFrontend(AllowAlways())
    async with open_host(ScriptedModel(add, add, text_round("both ran")), frontend) as host:
        await host.servers.ensure_ready("demo")
        with closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
            db.execute("DROP TABLE grants")
        feed = host.events.subscribe()
        result = await host.conversation.send("twice")
        events = [event for event in feed.drain() if isinstance(event, NoticeEvent)]
    assert (result.outcome, result.text, len(frontend.asked)) == ("done", "both ran", 1)
    assert events
    assert all("store" in event.text for event in events)
