"""Tests for attached resources that a server changed: marked in the list and on the message, refreshed with a key."""

from typing import Any

import pytest

from mcphost.host.events import ResourceChanged
from mcphost.llm.messages import ResourcePart
from mcphost.serialization import replace
from mcphost.tui.screens.attachments import is_same_version
from mcphost.tui.screens.text_viewer import TextViewerScreen
from mcphost.tui.transcript.presenter import TranscriptPresenter
from mcphost.tui.widgets import attachment_rows
from mcphost.tui.widgets.attachment_list import AttachmentList
from tests.screens.conftest import AppDriver, Run
from tests.screens.fake_host import FakeHost

pytestmark = pytest.mark.anyio
URI = "file:///project/README.md"
LINES = [f"line {number} of the project" for number in range(60)]


async def answer_ok(host: FakeHost, turn: int, text: str) -> str:
    host.say(turn, f"I read: {text}")
    return text


def rows(driver: AppDriver) -> tuple[Any, ...]:
    return driver.app.query_one(AttachmentList).rows


async def attach(driver: AppDriver, text: str) -> None:
    driver.host.features.texts[URI] = text
    driver.app.chat.attachments.add_resource("files", URI)
    await driver.until(lambda: rows(driver), "the attachment")


async def send(driver: AppDriver, text: str) -> None:
    count = len(driver.host.sent)
    await driver.type(text)
    await driver.pilot.press("enter")
    await driver.until(lambda: len(driver.host.sent) > count, "the message")
    await driver.until(lambda: not driver.app.chat.is_answering, "the end of the turn")


def change(driver: AppDriver, text: str) -> None:
    driver.host.features.texts[URI] = text
    driver.host.put(ResourceChanged("files", URI))


async def test_an_attachment_that_changed_is_marked_and_one_key_reads_it_again(run: Run) -> None:
    async with run(turn=answer_ok, size=(100, 30)) as driver:
        await attach(driver, "old text")
        change(driver, "new text")
        await driver.until(lambda: "▲ resource" in driver.text() and "changed" in driver.text(), "the mark")
        assert "shift+tab, then r reads it again" in driver.text()
        await driver.pilot.press("shift+tab", "r")
        await driver.until(lambda: not rows(driver)[0].is_changed, "the new version")
        assert driver.app.chat.attachments.parts == [ResourcePart("files", URI, "new text", "text/markdown")]


async def test_a_sent_resource_that_changed_is_marked_at_its_message_and_sent_as_a_difference(run: Run) -> None:
    async with run(turn=answer_ok, size=(100, 30)) as driver:
        await attach(driver, "\n".join(LINES))
        await send(driver, "look")
        assert not rows(driver)
        change(driver, "\n".join([*LINES[:30], "a new line", *LINES[31:]]))
        await driver.until(lambda: "changed since it was sent" in driver.text(), "the row")
        assert "characters)  changed since" in driver.transcript()
        assert "The model has an older version." in driver.transcript()
        assert driver.app.chat.attachments.parts == [], "nothing is attached without the user"
        await driver.pilot.press("shift+tab", "r")
        await driver.until(lambda: driver.app.chat.attachments.parts, "the difference")
        (row,) = rows(driver)
        assert (row.kind, row.is_changed, row.is_sent) == ("changes", False, False)
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, TextViewerScreen), "the preview")
        assert "+a new line" in driver.text()
        await driver.pilot.press("escape", "escape")
        await send(driver, "and now")
        (part,) = driver.host.sent[-1][1]
        assert "-line 30 of the project\n+a new line" in part.text
        assert len(part.text) < len(part.whole)
        assert not rows(driver)
        assert "changed since" not in driver.transcript()


async def test_a_change_can_be_ignored_and_one_that_changed_nothing_is_reported(run: Run) -> None:
    async with run(turn=answer_ok, size=(100, 30)) as driver:
        await attach(driver, "old text")
        await send(driver, "look")
        change(driver, "new text")
        await driver.until(lambda: rows(driver), "the row")
        await driver.pilot.press("shift+tab", "x")
        await driver.until(lambda: not rows(driver), "no row")
        assert "changed since" not in driver.transcript()
        change(driver, "old text")
        await driver.until(lambda: rows(driver), "the row")
        await driver.pilot.press("shift+tab", "r")
        await driver.until(lambda: driver.has_notified("The model has this version already."), "the reason")
        assert driver.app.chat.attachments.parts == []
        assert not rows(driver)


async def test_hidden_text_that_was_not_sent_is_no_change() -> None:
    newer = ResourcePart("files", "file:///a", "text\U000e0041")
    assert is_same_version(replace(newer, text="text"), newer)
    assert not is_same_version(replace(newer, text="other"), newer)


async def test_a_change_of_what_was_not_attached_is_only_reported(run: Run) -> None:
    async with run(turn=answer_ok, size=(100, 30)) as driver:
        await attach(driver, "old text")
        driver.host.put(ResourceChanged("files", "file:///other"))
        driver.host.put(ResourceChanged("github", URI))
        await driver.until(lambda: "github · " in driver.transcript(), "the notice")
        assert not any(row.is_changed for row in rows(driver))
        assert "older version" not in driver.transcript()
        driver.app.query_one(AttachmentList).focus()
        driver.app.chat.attachments.parts[:] = [ResourcePart("", "a.md", "text")]
        await driver.pilot.press("r")
        await driver.until(lambda: driver.has_notified("Only a resource of a server can be read again."), "the reason")


async def test_a_flood_of_changes_is_shown_once_and_measures_no_attachment_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run(turn=answer_ok, size=(100, 30)) as driver:
        await attach(driver, "old text")
        await send(driver, "look")
        await attach(driver, "another text")
        measured, shown = list[Any](), list[Any]()
        monkeypatch.setattr(attachment_rows, "build_row", measured.append)
        monkeypatch.setattr(TranscriptPresenter, "show_outdated", lambda _self, keys: shown.append(keys))
        for number in range(200):
            driver.host.put(ResourceChanged("files", f"{URI}/{number}"))
        await driver.until(lambda: rows(driver)[0].is_changed, "the mark")
        await driver.pilot.pause()
        assert measured == []
        assert len(shown) < 20
