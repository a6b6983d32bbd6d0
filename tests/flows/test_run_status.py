"""Tests for the status line of `mcphost run` while a real server and a model work."""

import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.headless.run import RunFrontend, StatusDisplay, run_turn
from mcphost.host.events import ToolProgress
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.conftest import OpenHost

pytestmark = pytest.mark.anyio


class RecordingStatus(StatusDisplay):
    """A status line that records the texts it shows; an empty text means that the line was removed."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def show(self, text: str, *, keep_time: bool = False) -> bool:
        self.shown.append(text)
        return True

    def show_progress(self, text: str, progress: ToolProgress) -> None:
        self.shown.append(f"{text}{progress.progress:g} of {progress.total or 0:g}")

    def end(self) -> None:
        if self.shown and self.shown[-1]:
            self.shown.append("")


async def test_a_run_shows_the_server_that_starts_the_model_and_the_progress_of_calls(open_host: OpenHost) -> None:
    status = RecordingStatus()
    model = ScriptedModel(tool_round(("demo__count_slowly", {"to": 2})), text_round("done"))
    async with open_host(model, RunFrontend(), allow_rules=(parse_rule("demo"),)) as host:
        assert await run_turn(host, "count", output="json", status=status) == 0
    shown = [text for text in status.shown if text]
    assert shown[0] == "Starting demo…"
    assert shown[1].startswith("Waiting for ")
    assert "Calling demo/count_slowly…" in shown
    assert "Calling demo/count_slowly: 2 of 2" in shown
    assert shown[-1].startswith("Waiting for ")
    assert status.shown[-1] == ""


async def test_a_server_that_starts_slowly_stays_in_the_status_line(
    open_host: OpenHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.headless.run.WAITING_NOTE_DELAY", 0)
    status = RecordingStatus()
    async with open_host(ScriptedModel(text_round("done")), RunFrontend(), allow_rules=(parse_rule("demo"),)) as host:
        assert await run_turn(host, "hi", output="json", status=status) == 0
    assert set(status.shown[: status.shown.index("Waiting for scripted…")]) == {"Starting demo…"}
    assert "waiting for" not in capsys.readouterr().err
