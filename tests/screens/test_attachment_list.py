"""Tests for the list of attachments above the message: viewing, removing and previewing by keyboard and mouse."""

import base64
import threading
from typing import Any

import pytest
from textual.events import Paste

from mcphost.host.conversation import resource_attachments
from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart, make_result_part, resource_key
from mcphost.llm.token_estimate import estimate_part_tokens
from mcphost.protocol.content import ResourceContents
from mcphost.protocol.resources import ReadResourceResult
from mcphost.tui.screens.attachment_preview import AttachmentPreview
from mcphost.tui.screens.attachments import MAX_NOTES
from mcphost.tui.screens.text_viewer import TextViewerScreen
from mcphost.tui.transcript.message_blocks import describe_attachment
from mcphost.tui.widgets.attachment_list import MAX_SHOWN, AttachmentList
from mcphost.tui.widgets.attachment_rows import build_row
from mcphost.tui.widgets.composer import Composer, ComposerInput
from mcphost.tui.widgets.image_view import ImageView
from mcphost.tui.widgets.long_text import LongText
from tests.screens.conftest import AppDriver, Run
from tests.screens.sample_images import sunset_image

pytestmark = pytest.mark.anyio

CODE = ResourcePart("", "src/app.py", "def run() -> None:\n    return None\n", "text/plain")
NOTES = ResourcePart("notes", "file:///notes.md", "# Notes\n", "text/markdown")
RESULT = make_result_part("github", "list_issues", "The user called it. Its result:\n\nnone")
PDF = FilePart("paper.pdf", "application/pdf", base64.b64encode(b"%PDF-1.7" + b"x" * 90_000).decode())


def shown(driver: AppDriver) -> AttachmentList:
    return driver.app.query_one(AttachmentList)


def attach(driver: AppDriver, *parts: Part) -> None:
    driver.app.chat.attachments.add(*parts)


def rows_on_screen(driver: AppDriver) -> list[str]:
    return [line for line in driver.text().splitlines() if " × " in line]


async def click(driver: AppDriver, word: str, row: int) -> None:
    """Click in the middle of a word in the given row of the list."""
    line = rows_on_screen(driver)[row]
    widget = shown(driver)
    await driver.pilot.click(widget, offset=(line.index(word) - widget.region.x + len(word) // 2, row))


def test_a_resource_with_the_address_of_a_result_is_listed_as_a_resource() -> None:
    resource = ResourcePart("github", RESULT.uri, RESULT.text)
    assert build_row(RESULT)[:2] == ("result", "github · list_issues")
    assert build_row(resource)[:2] == ("resource", "github · tool:list_issues")
    assert describe_attachment(RESULT).startswith("github · list_issues  (result, ")
    assert describe_attachment(resource).startswith("github · tool:list_issues  (")
    assert resource_key(RESULT) is None
    assert resource_key(resource) == ("github", "tool:list_issues"), "it can be read again"


async def test_each_attachment_has_kind_name_size_and_the_estimated_tokens(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        attach(driver, CODE, NOTES, RESULT, PDF, ImagePart("image/png", "A" * 4_000, name="clipboard image"))
        await driver.until(lambda: len(rows_on_screen(driver)) == 5)
        lines = rows_on_screen(driver)
        for line, words in zip(
            lines,
            (
                ("file ", "src/app.py", "35 B", f"{estimate_part_tokens(CODE):,} tokens"),
                ("resource ", "notes · file:///notes.md", "8 B"),
                ("result ", "github · list_issues"),
                ("PDF ", "paper.pdf", "90 kB", f"{estimate_part_tokens(PDF):,} tokens"),
                ("image ", "clipboard image", "3.0 kB", "1,500 tokens"),
            ),
            strict=True,
        ):
            assert all(word in line for word in words), line
        total = sum(row.tokens for row in shown(driver).rows)
        assert f"5 attachments, about {total:,} tokens" in driver.text()


async def test_one_is_chosen_and_removed_by_keyboard_and_the_others_stay(run: Run) -> None:
    async with run() as driver:
        attach(driver, CODE, NOTES, PDF)
        await driver.until(lambda: len(shown(driver).rows) == 3)
        await driver.pilot.press("shift+tab")
        assert shown(driver).has_focus
        await driver.pilot.press("up", "x")
        assert driver.app.chat.attachments.parts == [CODE, PDF]
        assert "enter views · x removes" in driver.text()
        await driver.pilot.press("delete", "backspace")
        assert driver.app.chat.attachments.parts == []
        assert not shown(driver).display
        await driver.until(lambda: driver.app.query_one(ComposerInput).has_focus, "the message")


async def test_down_after_the_last_one_and_escape_return_to_the_message(run: Run) -> None:
    async with run() as driver:
        attach(driver, CODE)
        await driver.until(lambda: shown(driver).rows)
        for key in ("down", "escape"):
            await driver.pilot.press("shift+tab")
            assert shown(driver).has_focus
            await driver.pilot.press(key)
            await driver.until(lambda: driver.app.query_one(ComposerInput).has_focus, "the message")
        assert driver.app.chat.attachments.parts == [CODE]


async def test_the_cross_removes_by_mouse_and_the_name_previews(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        attach(driver, CODE, NOTES)
        await driver.until(lambda: len(rows_on_screen(driver)) == 2)
        await click(driver, " × ", 0)
        await driver.until(lambda: driver.app.chat.attachments.parts == [NOTES], "the removal")
        await driver.until(lambda: len(rows_on_screen(driver)) == 1)
        await click(driver, "notes.md", 0)
        await driver.until(lambda: isinstance(driver.app.screen, TextViewerScreen), "the preview")
        assert "# Notes" in driver.text()
        assert driver.app.chat.attachments.parts == [NOTES]


async def test_a_text_is_previewed_with_highlighting(run: Run) -> None:
    async with run() as driver:
        attach(driver, CODE)
        await driver.until(lambda: shown(driver).rows)
        await driver.pilot.press("shift+tab", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, TextViewerScreen), "the viewer")
        text = driver.app.screen.query_one(LongText)

        def styles() -> dict[str, Any]:
            return {one.text: one.style.color for one in text.render_line(0) if one.style is not None}

        await driver.until(lambda: "def" in styles(), "the colors")
        assert styles()["def"] != styles()[" "]
        assert "".join(one.text for one in text.render_line(0)).rstrip() == "def run() -> None:"
        await driver.pilot.press("escape")
        assert shown(driver).has_focus


async def test_a_picture_is_drawn_and_a_pdf_is_described(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    async with run(size=(100, 30)) as driver:
        attach(driver, PDF, sunset_image())
        await driver.until(lambda: len(shown(driver).rows) == 2)
        await driver.pilot.press("shift+tab", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, AttachmentPreview), "the preview")
        await driver.until(lambda: driver.app.screen.query_one(ImageView).drawing is not None, "the picture")
        assert "▀" in driver.text()
        await driver.pilot.press("escape", "up", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, AttachmentPreview), "the preview")
        assert "application/pdf · 90 kB" in driver.text()
        assert "cannot be shown here" in driver.text()


async def test_a_folded_paste_is_listed_viewed_and_removed_from_the_text(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        composer = driver.app.query_one(Composer)
        composer.composer_input.insert("Compare ")
        driver.app.post_message(Paste("one line\n" * 40))
        await driver.until(lambda: shown(driver).rows, "the paste")
        attach(driver, NOTES)
        await driver.until(lambda: len(rows_on_screen(driver)) == 2, "both rows on the screen")
        (row,) = [line for line in rows_on_screen(driver) if "paste" in line]
        assert "[pasted 40 lines]" in row
        assert "90 tokens" in row
        await driver.pilot.press("shift+tab", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, TextViewerScreen), "the viewer")
        assert driver.text().count("one line") >= 20
        await driver.pilot.press("escape", "x")
        await driver.until(lambda: len(shown(driver).rows) == 1)
        assert composer.composer_input.text == "Compare "
        assert driver.app.chat.attachments.parts == [NOTES]


async def test_a_long_list_shows_five_and_scrolls_to_the_chosen_one(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        attach(driver, *(ResourcePart("", f"file-{number}.txt", "text", "text/plain") for number in range(30)))
        await driver.until(lambda: len(rows_on_screen(driver)) == MAX_SHOWN)
        assert "file-29.txt" in driver.text()
        assert "25 more" in driver.text()
        await driver.pilot.press("shift+tab", *["up"] * 29)
        assert "file-0.txt" in driver.text()
        assert "file-29.txt" not in driver.text()


async def test_hostile_names_take_one_row_and_hide_nothing(run: Run) -> None:
    name = "a\n[bold]\x1b[31m\u202e名前" + "x" * 5_000
    async with run(size=(60, 24)) as driver:
        attach(driver, ResourcePart("evil", name, "text", ""))
        await driver.until(lambda: rows_on_screen(driver))
        (row,) = rows_on_screen(driver)
        assert "[bold]" in row
        assert "\x1b" not in row
        assert "\u202e" not in row
        assert row.rstrip().endswith("×")


async def test_the_address_of_a_resource_cannot_fill_the_screen_with_a_notice(run: Run) -> None:
    async with run() as driver:

        async def read(server: str, uri: str) -> ReadResourceResult:
            contents = ResourceContents(uri="x://a\nmcphost: your session ended, type /quit\n" * 2_000, blob="AAAA")
            return ReadResourceResult(contents=(contents,))

        driver.host.features.read_resource = read  # type: ignore[method-assign]
        driver.app.chat.attachments.add_resource("notes", "x://a")
        notices = driver.app._notifications  # pyright: ignore[reportPrivateUsage]
        await driver.until(lambda: len(notices) == 1, "the notice")
        (notice,) = notices
        assert "\n" not in notice.message
        assert len(notice.message) < 400
        assert "no model reads them" in notice.message


async def test_a_resource_of_many_entries_that_are_not_attached_shows_only_a_few_notices(run: Run) -> None:
    async with run() as driver:

        async def read(server: str, uri: str) -> ReadResourceResult:
            return ReadResourceResult(
                contents=tuple(ResourceContents(uri=f"x://{number}", blob="AAAA") for number in range(200))
            )

        driver.host.features.read_resource = read  # type: ignore[method-assign]
        driver.app.chat.attachments.add_resource("notes", "x://a")
        await driver.until(lambda: driver.has_notified(f"{200 - MAX_NOTES} more"), "the notice")
        assert len(driver.app._notifications) == MAX_NOTES + 1  # pyright: ignore[reportPrivateUsage]
        assert len(driver.app.chat.attachments.parts) == 200


async def test_a_resource_is_converted_off_the_event_loop(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, convert = set[int](), resource_attachments.make_resource_attachments

    def watched(*args: Any) -> Any:
        threads.add(threading.get_ident())
        return convert(*args)

    monkeypatch.setattr(resource_attachments, "make_resource_attachments", watched)
    async with run() as driver:
        driver.app.chat.attachments.add_resource("notes", "x://a")
        await driver.until(lambda: rows_on_screen(driver))
    assert threads
    assert threading.get_ident() not in threads
