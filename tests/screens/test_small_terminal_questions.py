"""Questions on the smallest screen: all keys are shown and nothing is cut."""

import pytest

from mcphost.host.questions.questions import ApproveTool, Deny
from tests.screens import extreme_content
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


def approve() -> ApproveTool:
    return ApproveTool(
        server="files",
        why="the model asked for it in turn 1",
        call="c",
        tool="write_file",
        arguments={"path": "/tmp/a", "text": "one\ntwo\nthree\nfour\nfive\nsix\nseven"},
        description="Write a file.",
        first_use=True,
    )


async def test_all_keys_of_a_question_are_shown_at_80_by_24(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        PendingQuestion(it, approve())
        await it.enter_question()
        for word in ("esc/d deny", "r reason", "a once", "s session", "A always", "e edit", "v all"):
            assert word in it.text(), word


@pytest.mark.parametrize(
    ("key", "told", "button"),
    [("e", "ctrl+s apply", "Apply"), ("r", "enter denies with this reason", "Allow once")],
)
async def test_an_open_panel_shows_its_keys_and_keeps_the_buttons_in_view(
    run: Run, key: str, told: str, button: str
) -> None:
    async with run(size=(80, 24)) as it:
        PendingQuestion(it, approve())
        await it.enter_question()
        await it.pilot.press(key)
        await it.until(lambda: told in it.text() and button in it.text() and "╰" in it.text(), "keys and frame")
        await it.pilot.press("escape", *["escape"] * (key == "e"))
        await it.until(lambda: it.dialog is not None and "a once" in it.text(), "the keys of the question again")


async def test_a_reason_is_still_a_denial_after_looking_at_the_editor(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = PendingQuestion(it, approve())
        await it.enter_question()
        await it.pilot.press("e", "escape", "escape", "r")
        await it.type("no")
        await it.pilot.press("enter")
        await it.until(lambda: asked.answer == Deny(reason="no"))


async def test_how_long_a_call_waits_is_seen_before_its_addresses_however_long_they_are(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        it.app.run_worker(it.front.ask(extreme_content.RETRY))
        await it.enter_question()
        shown = it.text()
        assert shown.index("waiting for ") < shown.index("closes automatically") < shown.index("https://login.")
