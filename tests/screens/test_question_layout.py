"""Tests for the layout of questions: button labels, the number of waiting questions, and key hints."""

from typing import Any

import pytest
from textual.widgets import Button, Input

from mcphost.host.questions.questions import (
    AcceptUrl,
    AllowOnce,
    AllowSession,
    Cancel,
    ContinueTurn,
    Decline,
    Deny,
    DoNotShare,
    DoNotTrust,
    ShareOnce,
    ShareRoots,
    ShareSession,
    TrustAlways,
    TrustOnce,
    VisitUrl,
)
from mcphost.host.questions.sign_in import EnterPassphrase, UnlockSecrets
from mcphost.protocol.server_requests import Root
from mcphost.tui.dialogs.tool_consent import CallReview, ToolConsentDialog
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import PendingQuestion, open_guarded_dialog, tool_question, trust_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
FOLDERS = ShareRoots(server="s", why="it asks", roots=(Root(uri="file:///srv/a"),))
PAGE = VisitUrl(server="s", why="it asks", message="Go.", url="https://x.example/a", host="x.example")
LOCKED = UnlockSecrets(server="", why="", file="/home/me/secrets")


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        (tool_question(), {"Deny": Deny(), "Allow once": AllowOnce(), "Allow this session": AllowSession()}),
        (
            trust_question(command=("x",)),
            {"Do not use": DoNotTrust(), "This session": TrustOnce(), "Always": TrustAlways()},
        ),
        (FOLDERS, {"Don't share": DoNotShare(), "Once": ShareOnce(), "This session": ShareSession()}),
        (PAGE, {"Cancel": Cancel(), "Decline": Decline(), "Open the browser": AcceptUrl()}),
        (ContinueTurn(server="", why="", rounds=5), {"Stop here": False, "Go on": True}),
    ],
    ids=lambda value: getattr(value, "KIND", ""),
)
async def test_a_button_does_what_its_label_says(run: Run, question: Any, answers: dict[str, Any]) -> None:
    async with run() as driver:
        for label, answer in answers.items():
            pending = PendingQuestion(driver, question)
            await driver.enter_question()
            (button,) = [item for item in driver.app.screen.query(Button) if str(item.label) == label]
            await driver.pilot.click(button)
            await driver.until(lambda asked=pending: asked.answer is not None, label)
            assert pending.answer == answer


async def test_two_questions_show_their_number_and_a_single_one_shows_none(run: Run) -> None:
    async with run() as driver:
        first, second = PendingQuestion(driver, trust_question(command=("x",))), PendingQuestion(driver, FOLDERS)
        await driver.enter_question()
        assert driver.app.screen.query_one("#box").border_subtitle == "question 1 of 2"
        await driver.pilot.press("escape")
        await driver.until(lambda: first.answer is not None)
        await driver.enter_question()
        assert driver.app.screen.query_one("#box").border_subtitle == "question 2 of 2"
        await driver.pilot.press("escape")
        await driver.until(lambda: second.answer is not None)
        PendingQuestion(driver, FOLDERS)
        await driver.enter_question()
        assert not driver.app.screen.query_one("#box").border_subtitle


async def test_edits_are_not_approved_by_a_key_pressed_before_they_could_be_read(run: Run, clock: ManualClock) -> None:
    async with run() as driver:
        pending, dialog = await open_guarded_dialog(driver, tool_question())
        clock.now += 60
        assert not dialog.is_guarded
        await driver.pilot.press("f8")
        await dialog.apply_edits({"path": "/tmp/y", "text": "hello"})
        assert dialog.is_guarded
        await driver.until(lambda: dialog.guard.is_shown, "the edited call")
        await driver.pilot.press("a")
        assert pending.answer is None
        clock.now += 60
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer is not None, "the answer")
        assert pending.answer == AllowOnce({"path": "/tmp/y", "text": "hello"})


async def test_an_input_gets_the_letter_that_opened_it_and_an_abandoned_secret_is_cleared(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, LOCKED)
        await driver.enter_question()
        await driver.pilot.press("p", "x", "y")
        (box,) = driver.app.screen.query(Input)
        assert box.value == "xy"
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.app.screen.query("#extra.shown"), "the buttons")
        assert box.value == ""
        await driver.pilot.press("p", "p", "e", "p", "enter")
        await driver.until(lambda: pending.answer is not None, "the passphrase")
        assert pending.answer == EnterPassphrase("pep")


def test_a_call_that_went_back_to_the_list_half_read_is_not_read_when_it_is_opened_again() -> None:
    for end_shown in (False, True):
        dialog, reading = ToolConsentDialog(tool_question()), CallReview({"path": "/tmp/x", "text": "hello"})
        reading.is_end_shown = end_shown
        assert dialog.restore_review(reading) is reading
        assert dialog.is_read is end_shown


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {
                "command": ("a-server", "two words"),
                "cwd": "/srv/work",
                "environment": {"TOKEN": "[hidden]", "HOME_URL": "https://x"},
            },
            (
                "a-server 'two words'",
                "folder",
                "/srv/work",
                "It gets these environment variables",
                "TOKEN     [hidden]",
                "HOME_URL  https://x",
            ),
        ),
        (
            {
                "url": "https://x.example/mcp",
                "headers": {"X-Key": "[hidden]"},
                "ca_file": "/srv/ca.pem",
                "trusts_claims": True,
            },
            (
                "https://x.example/mcp",
                "It gets these headers",
                "X-Key  [hidden]",
                "CA file",
                "/srv/ca.pem",
                "tools that it calls read-only run without asking",
            ),
        ),
        (
            {
                "url": "https://${HOST}/mcp",
                "sign_in": {"issuer": "https://as.example"},
                "file": "/srv/mcp.json",
                "expansion": {"${HOST}": "x.example"},
            },
            (
                "Current values of its references:",
                "${HOST}  x.example",
                "Its sign-in settings:",
                "issuer  https://as.example",
                "configured in",
                "/srv/mcp.json",
            ),
        ),
    ],
    ids=["started", "reached", "signed in to"],
)
async def test_the_question_about_a_server_shows_its_command_and_its_data(
    run: Run, more: dict[str, Any], words: tuple[str, ...]
) -> None:
    async with run(size=(120, 40)) as driver:
        PendingQuestion(driver, trust_question(**more))
        await driver.enter_question()
        for word in words:
            assert word in driver.text()


async def test_a_call_shows_the_account_it_would_use(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(driver, tool_question(account="work@example"))
        await driver.enter_question()
        assert "account" in driver.text()
        assert "work@example" in driver.text()


async def test_one_round_of_tool_calls_is_named_in_the_singular(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        PendingQuestion(driver, ContinueTurn(server="", why="", rounds=1))
        await driver.until(lambda: "The model asked for tools 1 time in this turn." in driver.text())
        assert "allows up to 1 more round;" in " ".join(driver.text().split())
