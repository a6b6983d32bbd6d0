"""Tests for editing the message in an external editor; `tests/terminal/test_external_editor.py` runs a real one."""

import pytest

from mcphost.tui.app import McpHostApp
from mcphost.tui.widget_messages import EditorRequested
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio


def use_editor(monkeypatch: pytest.MonkeyPatch, *answers: tuple[str | None, str]) -> list[EditorRequested]:
    """Use an editor that saves these texts, one after the other; return its requests.

    Without texts, the editor stays open.
    """
    requests: list[EditorRequested] = []

    def edit(app: McpHostApp, message: EditorRequested) -> None:
        del app
        requests.append(message)
        if answers:
            message.on_edited(*answers[len(requests) - 1])

    monkeypatch.setattr(McpHostApp, "editor_name", "vi")
    monkeypatch.setattr(McpHostApp, "on_editor_requested", edit)
    return requests


def composer(driver: AppDriver) -> Composer:
    return driver.app.chat.query_one(Composer)


async def test_without_an_editor_the_message_stays_and_what_to_do_is_said(run: Run) -> None:
    async with run() as driver:
        await driver.type("words")
        await driver.pilot.press("ctrl+g")
        await driver.until(lambda: driver.has_notified("Set $VISUAL or $EDITOR"), "what to do")
        assert composer(driver).draft == Draft("words", "typed")


async def test_text_from_the_editor_runs_no_command_and_keeps_the_servers_of_its_prompts(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = use_editor(monkeypatch, ("/quit\n\nnow\n", ""))
    async with run() as driver:
        composer(driver).insert_prompt_text("crm", "the text of a prompt")
        await driver.pilot.press("ctrl+g")
        await driver.until(lambda: composer(driver).draft.text == "/quit\n\nnow", "the edited text")
        assert (requests[0].text, requests[0].name) == ("the text of a prompt", "message.md")
        assert composer(driver).draft == Draft("/quit\n\nnow", "inserted", ("crm",))


async def test_an_unchanged_or_failed_edit_leaves_the_message_as_typed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = use_editor(monkeypatch, ("!demo/add\n", ""), (None, "The editor failed."))
    async with run() as driver:
        await driver.type("!demo/add")
        await driver.pilot.press("ctrl+g")
        await driver.pilot.press("ctrl+g")
        await driver.until(lambda: driver.has_notified("The editor failed."), "the reason")
        assert len(requests) == 2
        assert composer(driver).draft == Draft("!demo/add", "typed")


@pytest.mark.parametrize(
    ("before", "edited", "meanwhile", "after", "is_reported"),
    [
        ("first words", "better words\n", "queued\nfirst words", "queued\nbetter words", False),
        ("first words", "\n", "queued\nfirst words", "queued", False),
        ("", "words\n", "queued", "queued\nwords", False),
        ("first words", "better words\n", "first words, changed", "better words\nfirst words, changed", True),
    ],
)
async def test_edited_text_replaces_the_text_before_which_a_queued_message_was_returned(
    run: Run, monkeypatch: pytest.MonkeyPatch, before: str, edited: str, meanwhile: str, after: str, is_reported: bool
) -> None:
    requests = use_editor(monkeypatch)
    async with run() as driver:
        composer(driver).set_draft(Draft(before, "inserted", ("crm",)))
        await driver.pilot.press("ctrl+g")
        await driver.until(lambda: len(requests) == 1, "the editor")
        composer(driver).set_draft(Draft(meanwhile, "typed", ("crm", "notes")))
        requests[0].on_edited(edited, "")
        assert composer(driver).draft.text == after
        assert composer(driver).draft.origin == "inserted"
        assert set(composer(driver).draft.sources) == {"crm", "notes"}
        if is_reported:
            await driver.until(lambda: driver.has_notified("was inserted before it"), "the notice")
