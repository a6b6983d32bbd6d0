"""Tests for long pastes, folded but sent in full, and for attaching pasted paths and clipboard images."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste

from mcphost.llm.messages import ImagePart
from mcphost.translation import CHINESE, ENGLISH, set_language
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run
from tests.screens.sample_images import sunset_image

pytestmark = pytest.mark.anyio
LONG = "\n".join(f"line {number}" for number in range(40))


def composer(driver: Any) -> Composer:
    return driver.app.query_one(Composer)


def text(driver: Any) -> str:
    return composer(driver).composer_input.text


async def paste(driver: Any, pasted: str) -> None:
    before = text(driver)
    driver.app.post_message(Paste(pasted))
    await driver.until(lambda: text(driver) != before, "the paste")
    await driver.pilot.pause()


@pytest.mark.parametrize("line_break", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
async def test_a_long_paste_is_folded_and_sent_in_full(run: Run, line_break: str) -> None:
    async with run() as driver:
        await driver.type("Explain: ")
        await paste(driver, LONG.replace("\n", line_break))
        assert text(driver) == "Explain: [pasted 40 lines]"
        await driver.until(lambda: "Tab unfolds the paste, backspace removes it." in driver.text(), "the hint")
        await driver.type(" briefly")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent == [(f"Explain: {LONG} briefly", ())]


@pytest.fixture
def _speak_chinese() -> Iterator[None]:
    set_language(CHINESE)
    yield
    set_language(ENGLISH)


@pytest.mark.usefixtures("_speak_chinese")
async def test_a_long_paste_is_sent_in_full_and_removed_as_one_in_chinese(run: Run) -> None:
    async with run() as driver:
        await paste(driver, LONG)
        await paste(driver, LONG)
        assert text(driver) == "[已粘贴 40 行][已粘贴 40 行 #2]"
        await driver.until(lambda: "粘贴" in driver.text() and "2 个附件" in driver.text(), "the rows")
        await driver.pilot.press("backspace")
        await driver.until(lambda: text(driver) == "[已粘贴 40 行]", "only the first")
        await driver.type("!")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent == [(f"{LONG}!", ())]


async def test_a_folded_paste_is_removed_as_one_and_undo_restores_it(run: Run) -> None:
    async with run() as driver:
        await driver.type("a ")
        await paste(driver, LONG)
        await driver.pilot.press("backspace")
        await driver.until(lambda: text(driver) == "a ", "nothing of it")
        await driver.pilot.press("ctrl+z")
        await driver.until(lambda: text(driver) == "a [pasted 40 lines]", "it again")
        assert composer(driver).draft.text == f"a {LONG}"
        assert composer(driver).draft.origin != "typed"


async def test_tab_unfolds_a_paste_and_letters_typed_into_it_go_behind_it(run: Run) -> None:
    async with run() as driver:
        await paste(driver, LONG)
        await driver.pilot.press("left", "left", "x")
        await driver.until(lambda: text(driver) == "[pasted 40 lines]x", "the letter")
        await driver.pilot.press("left", "tab")
        await driver.until(lambda: text(driver) == f"{LONG}x", "all of it")
        await driver.pilot.press("ctrl+z")
        await driver.until(lambda: text(driver) == "[pasted 40 lines]x", "the placeholder again")


async def test_a_folded_call_is_a_message(run: Run) -> None:
    async with run() as driver:
        call = '!files/search_files pattern=x note="' + LONG + '"'
        await paste(driver, call)
        assert text(driver) == "[pasted 40 lines]"
        assert composer(driver).draft == (call, "inserted", ())
        await driver.pilot.pause(1)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent or driver.host.called, "what enter does")
        assert (driver.host.called, driver.host.sent) == ([], [(call, ())])


async def test_a_sent_paste_returns_from_the_history_in_full(run: Run) -> None:
    async with run() as driver:
        await paste(driver, LONG)
        await driver.type("!")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent and not text(driver), "the message")
        await driver.pilot.press("up")
        await driver.until(lambda: text(driver) == f"{LONG}!", "the earlier message")


async def test_pasted_paths_are_attached_with_tab_and_stay_text_without(run: Run, tmp_path: Path) -> None:
    (tmp_path / "two words.md").write_text("content")
    (tmp_path / "b.md").write_text("more")
    async with run() as driver:
        await driver.type("see ")
        await paste(driver, f"'{tmp_path}/two words.md' {tmp_path}/b.md")
        await driver.until(lambda: "Tab attaches 2 files in place of the paths." in driver.text(), "the offer")
        await driver.pilot.press("tab")
        await driver.until(lambda: len(composer(driver).attachment_names) == 2, "the attachments")
        assert text(driver) == "see "
        await paste(driver, f"{tmp_path}/b.md")
        await driver.until(lambda: "Tab attaches" in driver.text(), "the offer")
        await driver.type(" x")
        await driver.until(lambda: "Tab attaches" not in driver.text(), "no offer")
        assert text(driver) == f"see {tmp_path}/b.md x"


async def test_a_path_that_does_not_exist_is_text(run: Run, tmp_path: Path) -> None:
    async with run() as driver:
        await paste(driver, f"{tmp_path}/missing")
        await driver.pilot.press("tab")
        await driver.pilot.pause()
        assert (text(driver), composer(driver).attachment_names) == (f"{tmp_path}/missing", ())


async def test_ctrl_v_attaches_the_image_in_the_clipboard_or_pastes_text(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = sunset_image(8, 8)
    (tmp_path / "image.png").write_bytes(base64.b64decode(image.data))
    program = tmp_path / "xclip"
    program.write_text(f"#!/bin/sh\nexec /bin/cat {tmp_path}/image.png\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    async with run() as driver:
        await driver.pilot.press("ctrl+v")
        await driver.until(lambda: composer(driver).attachment_names, "the image")
        assert driver.app.chat.attachments.parts == [ImagePart("image/png", image.data, name="clipboard image")]
        program.unlink()
        driver.app.copy_to_clipboard("copied here")
        await driver.pilot.press("ctrl+v")
        await driver.until(lambda: text(driver) == "copied here", "the text")
        assert composer(driver).draft.origin == "inserted"


NO_IMAGES = {
    "install xclip": ({"DISPLAY": ":0"}, ""),
    "no clipboard with images here": ({}, ""),
    "The clipboard has no image.": ({"DISPLAY": ":0"}, "#!/bin/sh\nexit 1\n"),
}


@pytest.mark.parametrize("reason", NO_IMAGES)
async def test_ctrl_v_says_why_it_attached_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    environment, script = NO_IMAGES[reason]
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**environment, "PATH": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    if script:
        (tmp_path / "xclip").write_text(script)
        (tmp_path / "xclip").chmod(0o755)
    async with run(notifications=True) as driver:
        await driver.pilot.press("ctrl+v")
        await driver.until(lambda: driver.has_notified(reason), "the reason")
        assert (text(driver), composer(driver).attachment_names) == ("", ())
