"""Tests for images in Kitty's graphics protocol: the bytes sent, and the cells in which the image appears."""

import re
import zlib
from base64 import b64decode
from typing import Any

import anyio
import pytest
from textual.color import Color

from mcphost.config.schema import ScreenConfig
from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.sandbox.image_formats import DecodedImage
from mcphost.tui import kitty_graphics
from mcphost.tui.kitty_graphics import (
    KittyGraphics,
    PlacedImage,
    can_place_pictures,
    draws_pictures,
    render_placeholders,
)
from tests.screens.conftest import Run
from tests.screens.sample_images import sunset_image

pytestmark = pytest.mark.anyio

SEQUENCE = re.compile(r"\x1b_G([^;\x1b]*)(?:;([^\x1b]*))?\x1b\\")


def read_sequences(written: list[str]) -> list[tuple[dict[str, str], str]]:
    """Return the keys and payload of each graphics sequence; fail if anything else was written."""
    text = "".join(written)
    assert SEQUENCE.sub("", text) == ""
    return [
        (dict(pair.split("=") for pair in keys.split(",")), payload or "") for keys, payload in SEQUENCE.findall(text)
    ]


def noise(width: int, height: int) -> DecodedImage:
    """Return an image that cannot be compressed."""
    pixels, state = bytearray(), 1
    while len(pixels) < width * height * 4:
        state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
        pixels += state.to_bytes(8, "big")[:4]
    return DecodedImage(width, height, bytes(pixels))


async def decode_noise(width: int, height: int) -> DecodedImage | str:
    return noise(width, height)


async def test_the_pixels_are_sent_once_in_bounded_parts_with_the_size_in_cells() -> None:
    written: list[str] = []
    pictures = KittyGraphics(written.append)
    placed = await pictures.show("data", 20, 7, decode_noise)
    assert isinstance(placed, PlacedImage)
    (first, _), *rest = parts = read_sequences(written)
    assert first["a"] == "T"
    assert (first["U"], first["f"], first["o"], first["q"]) == ("1", "32", "z", "2")
    assert (first["s"], first["v"], first["c"], first["r"]) == ("200", "140", "20", "7")
    assert int(first["i"]) == placed.number
    assert 0 < placed.number < 2**24
    assert all(set(keys) == {"q", "m"} for keys, _ in rest)
    assert [keys["m"] for keys, _ in parts] == ["1"] * (len(parts) - 1) + ["0"]
    assert len(parts) > 10
    assert all(len(payload) <= 4096 for _, payload in parts)
    assert zlib.decompress(b64decode("".join(payload for _, payload in parts))) == noise(200, 140).pixels
    written.clear()
    assert await pictures.show("data", 20, 7, decode_noise) is placed
    assert written == []


async def test_two_pictures_are_never_sent_at_the_same_time() -> None:
    written: list[str] = []
    pictures = KittyGraphics(written.append)
    shown: list[DecodedImage | str] = []

    async def show(name: str) -> None:
        shown.append(await pictures.show(name, 20, 7, decode_noise))

    async with anyio.create_task_group() as group:
        for name in ("a", "b", "a"):
            group.start_soon(show, name)
    assert len({id(one) for one in shown}) == 2
    numbers = {keys["i"] for keys, _ in read_sequences(written) if "i" in keys}
    assert numbers == {str(one.number) for one in shown if isinstance(one, PlacedImage)}
    ends = [keys["m"] for keys, _ in read_sequences(written)]
    assert ends.count("0") == 2
    assert ends[: len(ends) // 2].count("0") == 1


async def test_pixels_number_and_size_are_bounded_and_half_blocks_follow() -> None:
    written: list[str] = []
    pictures = KittyGraphics(written.append)
    asked: list[tuple[int, int]] = []

    async def decode(width: int, height: int) -> DecodedImage | str:
        asked.append((width, height))
        return noise(1, 1)

    for number in range(kitty_graphics.MAX_PICTURES):
        assert isinstance(await pictures.show(str(number), 120, 14, decode), PlacedImage)
    assert set(asked) == {(400, 280)}
    written.clear()
    assert await pictures.show("one more", 120, 14, decode) == noise(1, 1)
    assert asked[-1] == (120, 28)
    assert written == []


async def test_an_error_is_passed_on_and_nothing_is_sent() -> None:
    written: list[str] = []

    async def fail(width: int, height: int) -> DecodedImage | str:
        return f"not {width} × {height}"

    assert await KittyGraphics(written.append).show("x", 2, 2, fail) == "not 20 × 40"
    assert written == []


async def test_all_pictures_are_sent_again_after_other_programs_and_removed_at_the_end() -> None:
    written: list[str] = []
    pictures = KittyGraphics(written.append)
    for name in "ab":
        await pictures.show(name, 2, 2, decode_noise)
    before = "".join(written)
    written.clear()
    await pictures.send_again()
    assert "".join(written) == before
    written.clear()
    pictures.close()
    assert [(keys["a"], keys["d"]) for keys, _ in read_sequences(written)] == [("d", "I")] * 2
    written.clear()
    pictures.close()
    assert not isinstance(await pictures.show("c", 2, 2, decode_noise), PlacedImage)
    assert written == []


def test_each_cell_tells_its_row_and_column_by_marks_and_the_picture_by_its_color() -> None:
    placed = PlacedImage(width=1, height=1, pixels=b"", number=0x010203, columns=120, rows=14)
    strips = render_placeholders(placed, Color(9, 9, 9))
    assert [strip.cell_length for strip in strips] == [120] * 14
    assert all(segment.cell_length == 1 for strip in strips for segment in strip)
    assert strips[0].text.startswith("\U0010eeee\u0305\u0305\U0010eeee\u0305\u030d")
    assert strips[1].text.startswith("\U0010eeee\u030d\u0305")
    assert {tuple(segment.style.color.triplet) for strip in strips for segment in strip} == {(1, 2, 3)}  # type: ignore[union-attr, arg-type]
    assert len({segment.text for strip in strips for segment in strip}) == 120 * 14
    assert strips[3].crop(5, 9).text == "".join(segment.text for segment in list(strips[3])[5:9])


@pytest.mark.parametrize(
    ("environ", "can"),
    [({"TERM": "xterm-kitty"}, True), ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, False), ({"TERM": "screen"}, False)],
)
def test_tmux_and_screen_get_half_blocks(environ: dict[str, str], *, can: bool) -> None:
    assert can_place_pictures(environ) is can


@pytest.mark.parametrize(
    ("environ", "can"),
    [
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-ghostty"}, True),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, True),
        ({"TERM": "xterm-256color", "GHOSTTY_RESOURCES_DIR": "/usr/share/ghostty"}, True),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, False),
        ({"TERM": "xterm-ghostty", "STY": "1.x"}, False),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, False),
        ({"TERM": "xterm-kitty", "ZELLIJ": "0"}, False),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1", "TERM_PROGRAM": "vscode"}, False),
        ({"TERM": "xterm-256color", "GHOSTTY_RESOURCES_DIR": "/x", "TERM_PROGRAM": "ghostty"}, True),
        ({"TERM": "xterm-256color", "GHOSTTY_RESOURCES_DIR": "/x", "VTE_VERSION": "7600"}, False),
        ({"TERM": "foot", "KITTY_WINDOW_ID": "1"}, False),
        ({}, False),
    ],
)
def test_kitty_and_ghostty_are_recognized_unless_tmux_or_screen_is_in_between(
    environ: dict[str, str], *, can: bool
) -> None:
    assert draws_pictures(environ) is can


async def show_picture(driver: Any, monkeypatch: pytest.MonkeyPatch, how: str) -> list[str]:
    written: list[str] = []
    monkeypatch.setattr(driver.app.terminal, "write", written.append)
    driver.host.settings.screen = ScreenConfig(pictures=how)  # type: ignore[arg-type]
    driver.host.put(events.TurnStarted(1, Message(role="user", parts=(TextPart("What is it?"), sunset_image()))))
    return written


@pytest.mark.parametrize("how", ["auto", "kitty"])
async def test_the_setting_shows_pictures_in_the_chat(run: Run, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-kitty")
    async with run() as driver:
        written = await show_picture(driver, monkeypatch, how)
        await driver.until(lambda: "\U0010eeee" in driver.text(), "the cells")
        assert "▀" not in driver.text()
        sent = [part for text in written for part in SEQUENCE.findall(text)]
        assert "a=T" in sent[0][0]
        assert driver.text().count("\U0010eeee") == 50 * 14
        written.clear()
        driver.app.app_resume_signal.publish(driver.app)  # as after the editor
        await driver.until(lambda: any("a=T" in text for text in written), "the pixels again")
    assert "a=d,d=I" in written[-1]


async def test_another_setting_counts_for_the_next_picture(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)
    async with run(size=(80, 60)) as driver:
        await show_picture(driver, monkeypatch, "kitty")
        await driver.until(lambda: "\U0010eeee" in driver.text(), "the cells")
        await show_picture(driver, monkeypatch, "half-blocks")
        await driver.until(lambda: "▀" in driver.text(), "the half-blocks")
        assert "\U0010eeee" in driver.text()


@pytest.mark.parametrize(("how", "term"), [("half-blocks", "xterm-kitty"), ("auto", "xterm-256color")])
async def test_other_settings_and_terminals_get_no_sequence(
    run: Run, monkeypatch: pytest.MonkeyPatch, how: str, term: str
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    for name in ("KITTY_WINDOW_ID", "GHOSTTY_RESOURCES_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", term)
    async with run() as driver:
        written = await show_picture(driver, monkeypatch, how)
        await driver.until(lambda: "▀" in driver.text(), "the picture")
        assert "\x1b_G" not in "".join(written)


async def test_a_chat_in_a_browser_gets_no_sequence_although_it_is_served_from_kitty(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-kitty")
    async with run() as driver:
        monkeypatch.setattr(type(driver.app.terminal), "is_web", True)
        written = await show_picture(driver, monkeypatch, "auto")
        await driver.until(lambda: "▀" in driver.text(), "the picture")
        assert "\x1b_G" not in "".join(written)
