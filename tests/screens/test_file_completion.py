"""Tests for completing `@path` and attaching files when keys arrive before the files are found."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste

from mcphost.llm.messages import ResourcePart
from mcphost.translation import CHINESE, ENGLISH, set_language
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with a few files, and make it the working directory."""
    (tmp_path / "src" / "screens").mkdir(parents=True)
    (tmp_path / "src" / "screens" / "chat.py").write_text("".join(f"line {number}\n" for number in range(1, 61)))
    (tmp_path / "notes.md").write_text("the notes")
    (tmp_path / "README.txt").write_text("read me")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def text(driver: Any) -> str:
    return driver.app.query_one(Composer).composer_input.text


def names(driver: Any) -> tuple[str, ...]:
    return driver.app.query_one(Composer).attachment_names


def parts(driver: Any) -> list[Any]:
    return driver.app.chat.attachments.parts


async def test_files_are_listed_below_resources_and_attached(run: Run) -> None:
    async with run() as driver:
        await driver.type("see @READ")
        await driver.until(lambda: any("README.txt" in row for row in driver.popup_rows()), "the file")
        found = driver.popup_rows()
        assert (found[0], found[3]) == ("Resources", "Files")
        assert [row.split()[0] for row in (*found[1:3], found[4])] == ["README.md", "README.md", "README.txt"]
        await driver.pilot.press("down", "down", "enter")
        await driver.until(lambda: names(driver), "the attachment")
        assert (text(driver), names(driver)) == ("see ", ("README.txt",))
        assert parts(driver) == [ResourcePart("", "README.txt", "read me", "text/plain")]
        await driver.type("what is it?")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0] == ("see what is it?", (ResourcePart("", "README.txt", "read me", "text/plain"),))


async def test_keys_pressed_before_files_are_found_attach_the_best_one(run: Run) -> None:
    async with run() as driver:
        for key in "@schat":
            driver.app.simulate_key(key)
        driver.app.simulate_key("tab")
        await driver.until(lambda: names(driver), "the attachment")
        assert names(driver)[0] == "src/screens/chat.py"
        assert text(driver) == ""


async def test_only_lines_of_a_file_are_attached(run: Run) -> None:
    async with run() as driver:
        await driver.type("@chat.py:10-12")
        await driver.pilot.press("enter")
        await driver.until(lambda: names(driver), "the attachment")
        assert [part.uri for part in parts(driver)] == ["src/screens/chat.py:10-12"]
        assert parts(driver)[0].text == "line 10\nline 11\nline 12\n"


async def test_tab_enters_a_folder_and_enter_attaches_its_listing(run: Run) -> None:
    async with run() as driver:
        await driver.type("@sr")
        await driver.pilot.press("tab")
        await driver.until(lambda: text(driver) == "@src/", "the folder")
        await driver.until(lambda: any("screens/" in row for row in driver.popup_rows()), "what is in it")
        await driver.pilot.press("enter")
        await driver.until(lambda: names(driver), "the attachment")
        assert [(part.uri, part.text) for part in parts(driver)] == [("src/", "screens/")]


async def test_absolute_paths_are_completed(run: Run, folder: Path) -> None:
    other = folder.parent / "other.md"
    other.write_text("other")
    async with run() as driver:
        await driver.type(f"@{folder.parent}/oth")
        await driver.pilot.press("tab")
        await driver.until(lambda: names(driver), "the attachment")
        assert [part.uri for part in parts(driver)] == [f"{folder.parent}/other.md"]


async def test_a_file_that_is_attached_already_is_not_attached_again(run: Run) -> None:
    async with run() as driver:
        await driver.type("@notes")
        await driver.pilot.press("tab")
        await driver.until(lambda: names(driver), "the attachment")
        await driver.type("@notes")
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app._notifications, "the notice")
        assert [one.message for one in driver.app._notifications] == ["notes.md is attached already."]
        assert names(driver) == ("notes.md",)


async def test_lines_typed_after_the_file_was_attached_are_pointed_out(run: Run) -> None:
    async with run() as driver:
        await driver.type("see :10-12")
        assert "sent as text" not in driver.text()
        await driver.pilot.press("ctrl+u")
        await driver.type("see @chat")
        await driver.pilot.press("tab")
        await driver.until(lambda: names(driver), "the attachment")
        await driver.type(":10-12 ")
        hint = ":10-12 is sent as text. Lines are typed before Tab: @src/screens/chat.py:10-12"
        await driver.until(lambda: hint in driver.text(), "the hint")


async def test_pasted_paths_that_cannot_be_attached_stay_apart_in_the_text(run: Run, folder: Path) -> None:
    programs = [folder / "one", folder / "two"]
    for program in programs:
        program.write_bytes(b"\x7fELF\xff\xff")
    async with run(size=(160, 40)) as driver:
        await driver.type("run ")
        driver.app.post_message(Paste("\n".join(map(str, programs))))
        await driver.until(lambda: "Tab attaches" in driver.text(), "the offer")
        await driver.pilot.press("tab")
        await driver.until(lambda: len(text(driver)) > len(f"run {programs[0]}"), "the paths")
        assert sorted(text(driver).split()[1:]) == sorted(map(str, programs))


async def test_a_pasted_path_that_cannot_be_attached_stays_in_the_text(run: Run, folder: Path) -> None:
    program = folder / "program"
    program.write_bytes(b"\x7fELF\xff\xff")
    async with run(size=(160, 40)) as driver:
        await driver.type("run ")
        driver.app.post_message(Paste(str(program)))
        await driver.until(lambda: "Tab attaches" in driver.text(), "the offer")
        await driver.pilot.press("tab")
        await driver.until(lambda: "program is a program, which no model can read" in driver.text(), "the reason")
        assert text(driver) == f"run {program}"


async def test_a_file_that_cannot_be_attached_is_reported(run: Run, folder: Path) -> None:
    (folder / "program").write_bytes(b"\x7fELF\xff\xff")
    async with run() as driver:
        await driver.type("@program")
        await driver.pilot.press("tab")
        await driver.until(lambda: "program is a program, which no model can read" in driver.text(), "the reason")
        assert names(driver) == ()


async def test_a_word_that_matches_nothing_is_text(run: Run) -> None:
    async with run() as driver:
        await driver.type("mail me@zzz or @zzz")
        await driver.until(
            lambda: driver.popup_rows() == ["No matching resource or file: it is sent as text."], "the remark"
        )
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0] == ("mail me@zzz or @zzz", ())


@pytest.mark.parametrize("place", ["zebra.md", "src/zebra.md"])
async def test_a_file_made_after_the_first_search_is_found_and_attached(run: Run, folder: Path, place: str) -> None:
    typed = place.removesuffix("bra.md")
    async with run() as driver:
        await driver.type(f"see @{typed}")
        await driver.until(lambda: any("No matching" in row for row in driver.popup_rows()), "the remark")
        (folder / place).write_text("just made")
        await driver.type("b")
        await driver.until(lambda: any("zebra.md" in row for row in driver.popup_rows()), "the file")
        await driver.pilot.press("enter")
        await driver.until(lambda: names(driver), "the attachment")
        assert parts(driver) == [ResourcePart("", place, "just made", "text/plain")]
        assert text(driver) == "see "


async def test_a_mention_that_attaches_nothing_is_pointed_out_before_and_after_sending(run: Run) -> None:
    async with run() as driver:
        await driver.type("@nosuch.txt")
        await driver.until(lambda: any("No matching" in row for row in driver.popup_rows()), "the remark")
        await driver.type(" hi")
        await driver.until(lambda: "@nosuch.txt matches no file or resource" in driver.text(), "the hint")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0] == ("@nosuch.txt hi", ())
        assert [one.message for one in driver.app._notifications] == [
            "@nosuch.txt was sent as text: no file or resource matches it."
        ]


async def test_a_file_that_is_named_exactly_is_announced_before_sending(run: Run) -> None:
    async with run() as driver:
        await driver.type("@notes.md,")
        await driver.until(lambda: any("No matching" in row for row in driver.popup_rows()), "the remark")
        await driver.pilot.press("backspace")
        await driver.until(lambda: any("notes.md" in row for row in driver.popup_rows()), "the file")
        await driver.type(" please")
        await driver.until(lambda: "@notes.md is attached when you send the message." in driver.text(), "the hint")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0] == ("@notes.md please", (ResourcePart("", "notes.md", "the notes", "text/plain"),))


async def test_a_file_whose_exact_path_is_typed_is_attached_when_the_message_is_sent(run: Run) -> None:
    async with run() as driver:
        driver.press_together(*"explain @src/screens/chat.py:5-7, now", "enter")
        await driver.until(lambda: driver.host.sent, "the message")
        sent, attached = driver.host.sent[0]
        assert sent == "explain @src/screens/chat.py:5-7, now"
        assert [(part.uri, part.text) for part in attached] == [("src/screens/chat.py:5-7", "line 5\nline 6\nline 7\n")]
        assert not driver.app._notifications


async def test_a_message_is_not_sent_without_a_file_that_it_names_exactly(run: Run) -> None:
    async with run() as driver:
        driver.press_together(*"explain @src/screens/chat.py:100-200 now", "enter")
        await driver.until(lambda: "has only 60 lines" in driver.text(), "the reason")
        await driver.until(lambda: "the @ to send it as text" in driver.text(), "the hint")
        assert text(driver) == "explain @src/screens/chat.py:100-200 now"
        assert not driver.host.sent


@pytest.mark.parametrize("word", ["@../notes.md", "@~/notes.md", "@src/screens", "@link.md", "@gone.md"])
async def test_another_path_than_that_of_a_file_in_the_folder_is_pointed_out_after_sending(
    run: Run, folder: Path, word: str
) -> None:
    (folder / "link.md").symlink_to("/etc/hostname")
    async with run() as driver:
        driver.press_together(*f"see {word} now", "enter")
        await driver.until(lambda: driver.host.sent or "outside of this folder" in driver.text(), "the end")
        if word == "@link.md":
            assert not driver.host.sent
            return
        assert driver.host.sent[0] == (f"see {word} now", ())
        await driver.until(lambda: driver.app._notifications, "the notification")
        assert [one.message for one in driver.app._notifications] == [
            f"{word} was sent as text. Tab while you type it attaches the file."
        ]


async def test_a_file_named_in_pasted_text_is_not_attached_but_pointed_out(run: Run) -> None:
    async with run() as driver:
        driver.app.query_one(Composer).set_text("see @notes.md now")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0] == ("see @notes.md now", ())
        await driver.until(lambda: driver.app._notifications, "the notification")
        assert [one.message for one in driver.app._notifications] == ["@notes.md was sent as text, without the file."]


async def test_a_mention_whose_file_cannot_be_attached_stays_in_the_text(run: Run) -> None:
    async with run() as driver:
        await driver.type("read @src/screens/chat.py:100-200")
        await driver.pilot.press("tab")
        await driver.until(lambda: "has only 60 lines" in driver.text(), "the reason")
        assert text(driver) == "read @src/screens/chat.py:100-200"
        await driver.pilot.press("backspace")
        assert text(driver) == "read @src/screens/chat.py:100-20"


async def test_a_name_that_is_not_meant_as_a_mention_is_sent_without_a_warning(run: Run) -> None:
    async with run() as driver:
        await driver.type("@zzz")
        await driver.until(lambda: any("No matching" in row for row in driver.popup_rows()), "the remark")
        await driver.type(" says hi")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0] == ("@zzz says hi", ())
        assert not list(driver.app._notifications)


async def test_what_is_left_out_of_a_file_is_reported_in_chinese(run: Run, folder: Path) -> None:
    (folder / "long.txt").write_text("a line of text\n" * 20_000)
    set_language(CHINESE)
    try:
        async with run() as driver:
            await driver.type("@long.txt")
            await driver.until(lambda: "long.txt" in driver.text(), "the file")
            await driver.pilot.press("enter")
            await driver.until(
                lambda: driver.has_notified("long.txt：只附加了前 17,476 行，293 KB 中的 256 KB。"), "the note"
            )
    finally:
        set_language(ENGLISH)


async def test_escape_closes_the_remark_that_nothing_matches_before_it_stops_the_answer(run: Run) -> None:
    async def forever(host: FakeHost, turn: int, text: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with run(turn=forever) as driver:
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.conversation.is_busy, "the answer")
        await driver.type("see @nothing")
        await driver.until(lambda: any("No matching" in row for row in driver.popup_rows()), "the remark")
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.popup_rows(), "the end of the remark")
        assert driver.host.conversation.is_busy
        assert text(driver) == "see @nothing"
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.host.conversation.is_busy, "the stop")
