"""Tests for images in results: drawn if the terminal supports it, otherwise described, and foldable."""

import base64
import io
import struct
from typing import Any

import psutil
import pytest
from PIL import Image

from mcphost.host import events
from mcphost.host.questions.questions import ResultPart, ReviewResult, ReviewSampling
from mcphost.llm.messages import ImagePart, Message, TextPart, ToolReturnPart, ToolUsePart
from mcphost.protocol.base import Icon
from mcphost.protocol.content import ResourceContents
from mcphost.protocol.resources import ReadResourceResult
from mcphost.sandbox import images as image_sandbox
from mcphost.serialization import Raw, encode, replace
from mcphost.tui.image_cache import ImageCache
from mcphost.tui.screens.resources import describe_saving
from mcphost.tui.transcript.image_block import MAX_ROWS, ImageCard
from mcphost.tui.widgets.image_view import ImageView
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost
from tests.screens.sample_images import icon_data_url

pytestmark = pytest.mark.anyio

RED, BLUE = (255, 0, 0), (0, 0, 255)


def image_part(width: int, height: int, *, cut: int = 0) -> ImagePart:
    """Return an image whose upper half is red and whose lower half is blue."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(BLUE, (0, height // 2, width, height))
    body = io.BytesIO()
    image.save(body, "PNG")
    raw = body.getvalue()
    return ImagePart("image/png", base64.b64encode(raw[: len(raw) - cut]).decode())


@pytest.fixture(autouse=True)
def _colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


def show_images(host: FakeHost, *images: ImagePart, call: str = "a") -> None:
    """Publish the events of a call whose result contains these images."""
    host.put(events.ToolProposed(call, "files", "look", {}))
    host.put(events.ToolStarted(call, "files", "look", {}, "once"))
    text = "\n".join("[image: image/png]" for _ in images)
    host.put(events.ToolFinished(call, "files", "look", "ok", text, 0.1, "", images))


def image_blocks(driver: Any) -> list[ImageCard]:
    return [block for block in driver.app.chat.presenter.transcript.blocks if isinstance(block, ImageCard)]


def is_near(colour: tuple[int, int, int], expected: tuple[int, int, int]) -> bool:
    return all(abs(item - other) < 30 for item, other in zip(colour, expected, strict=True))


def colours(driver: Any) -> set[tuple[int, int, int]]:
    """Return the colours of all half blocks on the screen, with which images are drawn."""
    out: set[tuple[int, int, int]] = set()
    for strip in driver.app.screen._compositor.render_strips():
        for segment in strip:
            if "▀" in segment.text:
                out |= {tuple(item.triplet) for item in (segment.style.color, segment.style.bgcolor)}
    return out


async def test_an_image_in_a_result_is_drawn_below_its_card_in_its_own_colours(run: Run) -> None:
    async with run() as driver:
        show_images(driver.host, image_part(40, 20))
        await driver.until(lambda: {RED, BLUE} <= colours(driver), "the picture")
        rows = driver.text().splitlines()
        drawn = [row for row in rows if "▀" in row]
        assert len(drawn) == 10
        assert all(row.count("▀") == 40 for row in drawn)
        assert rows.index(drawn[0]) > next(y for y, row in enumerate(rows) if "[image: image/png]" in row)


async def test_space_is_reserved_before_decoding_so_that_nothing_moves(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    async def never(self: ImageCache, data: str, width: int, height: int) -> str:
        asked.append((width, height))
        return "it is not wanted now"

    monkeypatch.setattr(ImageCache, "decode", never)
    async with run() as driver:
        view = driver.app.chat.presenter.transcript
        show_images(driver.host, image_part(400, 400))
        await driver.until(lambda: image_blocks(driver), "the block")
        before = view.virtual_size.height
        assert image_blocks(driver)[0].estimate_height(view.text_width) == 1 + MAX_ROWS
        await driver.until(lambda: image_blocks(driver)[0].failure_reason, "the refusal")
        await driver.pilot.pause()
        assert view.virtual_size.height == before
        assert "it is not wanted now" in driver.text()
        assert asked == [(28, 28)]  # once, not for each frame


async def test_an_image_is_never_wider_than_the_view_nor_higher_than_its_bound(run: Run) -> None:
    async with run(size=(60, 24)) as driver:
        show_images(driver.host, image_part(1000, 100), image_part(50, 900))
        await driver.until(lambda: [bool(block.drawing) for block in image_blocks(driver)] == [True, True], "both")
        wide, high = image_blocks(driver)
        assert wide.drawing.width <= driver.app.chat.presenter.transcript.text_width - 4
        assert high.drawing.height <= MAX_ROWS * 2
        await driver.pilot.resize_terminal(100, 30)
        await driver.until(lambda: wide.drawing.width > 60, "the wider one")


async def test_enter_folds_an_image_to_one_row_and_unfolds_it(run: Run) -> None:
    async with run() as driver:
        show_images(driver.host, image_part(40, 20))
        await driver.until(lambda: colours(driver), "the picture")
        driver.app.chat.presenter.transcript.focus()
        await driver.pilot.press("enter")
        assert not colours(driver)
        assert "▸ image  image/png, 40 × 20 pixels" in driver.text()
        await driver.pilot.press("enter")
        assert {RED, BLUE} <= colours(driver)
        assert image_blocks(driver)[0].copy_text() == "[image: image/png, 40 × 20 pixels]"


async def test_a_damaged_image_is_reported_and_the_next_one_is_drawn(run: Run) -> None:
    async with run() as driver:
        show_images(driver.host, image_part(40, 20, cut=30), image_part(20, 20))
        await driver.until(lambda: "damaged" in driver.text() and colours(driver), "both")


async def test_parallel_calls_have_their_images_below_their_own_cards(run: Run) -> None:
    async with run() as driver:
        for call in ("a", "b"):
            driver.host.put(events.ToolProposed(call, "files", f"look_{call}", {}))
            driver.host.put(events.ToolStarted(call, "files", f"look_{call}", {}, "once"))
        for call, size in (("b", 8), ("a", 6)):
            driver.host.put(
                events.ToolFinished(call, "files", f"look_{call}", "ok", "", 0.1, "", (image_part(size, size),))
            )
        await driver.until(lambda: len(image_blocks(driver)) == 2, "both")
        kinds = [type(block).__name__ for block in driver.app.chat.presenter.transcript.blocks]
        assert kinds[-4:] == ["ToolCard", "ImageCard", "ToolCard", "ImageCard"]
        assert [block.kind.width for block in image_blocks(driver)] == [6, 8]


def notice_rows(driver: Any) -> list[str]:
    """Return the rows of the conversation that contain notices, without the scrollbar."""
    return [row[:60] for row in driver.text().splitlines()[2:20]]


async def test_an_image_that_loads_above_the_visible_part_does_not_move_it(run: Run) -> None:
    async with run() as driver:
        driver.host.put(events.ToolProposed("a", "files", "look", {}))
        await driver.until(lambda: "look" in driver.transcript(), "the card")
        for number in range(60):
            driver.app.chat.presenter.add_notice("info", f"line {number}")
        view = driver.app.chat.presenter.transcript
        await driver.pilot.pause()
        view.scroll_to(y=60, animate=False)
        await driver.pilot.pause()
        before = notice_rows(driver)
        driver.host.put(events.ToolFinished("a", "files", "look", "ok", "", 0.1, "", (image_part(40, 40),)))
        await driver.until(lambda: image_blocks(driver), "the block")
        await driver.pilot.pause()
        assert notice_rows(driver) == before


async def test_an_earlier_conversation_shows_its_images_again(run: Run) -> None:
    messages = (
        Message(role="assistant", parts=(ToolUsePart("u", "files__look", {}),)),
        Message(role="tool", parts=(ToolReturnPart("u", "files__look", "[image]", images=(image_part(12, 12),)),)),
    )
    async with run() as driver:
        driver.app.chat.presenter.load(messages)
        await driver.until(lambda: {RED, BLUE} <= colours(driver), "the picture")


def picture_message(**more: Any) -> Message:
    return Message(role="user", parts=(TextPart("What is this?"), image_part(12, 12)), **more)


@pytest.mark.parametrize("how", ["started", "queued", "stored", "inserted"])
async def test_an_attached_image_is_drawn_below_its_message(run: Run, how: str) -> None:
    async with run() as driver:
        message = picture_message()
        if how == "stored":
            driver.app.chat.presenter.load((message,))
        elif how == "inserted":
            driver.host.put(events.MessagesInserted((message,)))
        else:
            driver.host.put(events.TurnStarted(1, message) if how == "started" else events.UserMessageAdded(1, message))
        await driver.until(lambda: {RED, BLUE} <= colours(driver), "the picture")
        rows = driver.text().splitlines()
        first = next(y for y, row in enumerate(rows) if "▀" in row)
        assert "image" in rows[first - 1]
        assert next(y for y, row in enumerate(rows) if "What is this?" in row) < first


async def test_a_stopped_turn_says_so_below_an_attached_image(run: Run) -> None:
    async with run() as driver:
        driver.host.put(events.TurnStarted(1, picture_message()))
        driver.host.put(events.TurnFinished(1, "stopped"))
        await driver.until(lambda: "Stopped." in driver.text(), "the notice")


async def test_an_attached_image_is_only_named_where_none_can_be_drawn(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with run() as driver:
        driver.host.put(events.TurnStarted(1, picture_message()))
        await driver.until(lambda: "image, about" in driver.text(), "its name")
        assert not image_blocks(driver)
        assert "listed by name" not in driver.transcript()


@pytest.mark.parametrize("how", ["no extra", "NO_COLOR", "256 colours"])
async def test_images_that_cannot_be_drawn_are_named_and_the_hint_is_shown_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "no extra":
        monkeypatch.setattr(image_sandbox, "find_spec", lambda name: None)
    elif how == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.setenv("COLORTERM", "")
        monkeypatch.setenv("TERM", "xterm-256color")
    expected = {"no extra": "mcphost[images]", "NO_COLOR": "NO_COLOR is set", "256 colours": "COLORTERM=truecolor"}[how]
    async with run() as driver:
        show_images(driver.host, image_part(40, 20))
        show_images(driver.host, image_part(40, 20), call="b")
        await driver.until(lambda: expected in driver.transcript(), "the hint")
        await driver.pilot.pause()
        assert driver.transcript().count("listed by name, not shown") == 1
        assert not image_blocks(driver)
        assert not colours(driver)


async def test_data_that_is_no_image_or_has_no_size_takes_no_space(run: Run) -> None:
    async with run() as driver:
        bad = (ImagePart("image/png", "bm8gcGljdHVyZQ=="), ImagePart("image/png", "%%%"))
        show_images(driver.host, *bad, image_part(8, 8))
        await driver.until(lambda: len(image_blocks(driver)) == 1, "the one")


async def test_a_flood_of_images_is_bounded(run: Run) -> None:
    async with run() as driver:
        show_images(driver.host, *[image_part(2, 2)] * 500)
        await driver.until(lambda: image_blocks(driver), "some")
        assert len(image_blocks(driver)) == 20


async def test_an_image_resource_is_drawn_and_does_not_cover_the_next_one(run: Run) -> None:
    async with run() as driver:
        read = driver.host.features.read_resource

        async def picture(server: str, uri: str) -> ReadResourceResult:
            if not uri.endswith("md"):
                return await read(server, uri)
            return ReadResourceResult(
                contents=(ResourceContents(uri=uri, mime_type="image/png", blob=image_part(400, 300).data),)
            )

        driver.host.features.read_resource = picture
        await driver.pilot.press("f4")
        await driver.until(lambda: {RED, BLUE} <= colours(driver), "the picture")
        assert "README.md: image/png" in driver.text()
        await driver.pilot.press("down")
        await driver.until(lambda: '"a"' in driver.text(), "the text")
        assert not colours(driver)


async def test_an_image_resource_with_too_many_pixels_names_the_command_that_saves_it(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        small = base64.b64decode(image_part(2, 2).data)
        huge = base64.b64encode(small[:16] + struct.pack(">II", 9_000, 9_000) + small[24:]).decode()

        async def picture(server: str, uri: str) -> ReadResourceResult:
            return ReadResourceResult(contents=(ResourceContents(uri=uri, mime_type="image/png", blob=huge),))

        driver.host.features.read_resource = picture
        await driver.pilot.press("f4")
        await driver.until(lambda: "To save the picture: mcphost read files" in driver.text(), "the command")
        assert "-o FILE" in driver.text()


def test_a_resource_is_saved_with_a_command_that_a_shell_takes_as_it_is_shown() -> None:
    assert describe_saving("files", "a b;c") == "To save the picture: mcphost read files 'a b;c' -o FILE"
    assert describe_saving("files", "a\nb") == ""


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_an_image_in_a_sampling_request_is_drawn_before_it_is_approved(run: Run, size: tuple[int, int]) -> None:
    content = [
        {"type": "text", "text": "What is it?"},
        {"type": "image", "data": image_part(30, 20).data, "mimeType": "x"},
    ]
    question = ReviewSampling(
        server="files",
        why="its tool runs",
        messages=({"role": "user", "content": content},),
        model="m",
        label="m",
        max_tokens=9,
    )
    async with run(size=size) as driver:
        driver.app.run_worker(driver.frontend.ask(question))
        await driver.enter_question()
        await driver.pilot.press("end")
        await driver.until(lambda: {RED, BLUE} <= colours(driver), "the picture")
        assert driver.dialog.is_read


async def test_an_image_in_a_result_is_drawn_before_the_model_gets_it(run: Run) -> None:
    image = image_part(30, 20)
    pieces = (ResultPart(kind="text", text="Look."), ResultPart(kind="image", text="[image]", image=image))
    question = ReviewResult(server="files", why="w", call="c", tool="look", arguments={}, parts=pieces)
    async with run(size=(80, 24)) as driver:
        driver.app.run_worker(driver.frontend.ask(question))
        await driver.enter_question()
        await driver.until(lambda: {RED, BLUE} <= colours(driver), "the picture")


async def test_an_image_that_cannot_be_drawn_takes_no_space_on_a_page(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_sandbox, "find_spec", lambda name: None)
    async with run() as driver:
        view = ImageView(image_part(40, 40))
        await driver.app.screen.mount(view)
        await driver.pilot.pause()
        assert not view.display


@pytest.mark.req("icon.mime")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_the_icon_of_a_tool_a_resource_a_prompt_and_a_server_is_drawn_on_its_page(run: Run, kind: str) -> None:
    icons = (Icon(icon_data_url(kind)),)
    async with run(size=(120, 40)) as driver:
        view = driver.host.views[0]
        assert view.facts is not None
        given = view.catalog
        catalog = replace(
            given,
            tools=tuple(replace(tool, icons=icons) for tool in given.tools),
            resources=tuple(replace(resource, icons=icons) for resource in given.resources),
            prompts=tuple(replace(prompt, icons=icons) for prompt in given.prompts),
        )
        info = replace(view.facts.info, icons=Raw(encode([{"src": icons[0].src}])))
        facts = replace(view.facts, info=info)
        driver.host.views = (replace(view, catalog=catalog, facts=facts), *driver.host.views[1:])
        for keys in (["f3"], ["f3", "t"], ["f4"], ["f5"]):
            await driver.pilot.press(*keys)
            await driver.until(lambda: any(is_near(colour, RED) for colour in colours(driver)), f"the icon of {keys}")
            assert len([row for row in driver.text().splitlines() if "▀" in row]) == 4
            while len(driver.app.screen_stack) > 1:
                await driver.pilot.press("escape")


@pytest.mark.req("icon.content")
async def test_a_script_or_mislabelled_icon_is_not_drawn(run: Run) -> None:
    script = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>").decode()
    icons = (Icon(f"data:image/svg+xml;base64,{script}"), Icon(f"data:image/png;base64,{script}"))
    async with run(size=(120, 40)) as driver:
        view = driver.host.views[0]
        catalog = replace(view.catalog, tools=tuple(replace(tool, icons=icons) for tool in view.catalog.tools))
        driver.host.views = (replace(view, catalog=catalog), *driver.host.views[1:])
        await driver.pilot.press("f3", "t")
        await driver.until(lambda: "enabled" in driver.text(), "the page")
        await driver.pilot.pause()
        assert not driver.app.screen.query_one("#icon").display
        assert driver.app.image_cache is None  # nothing requested a decoder


async def test_leaving_ends_the_process_that_decodes(run: Run) -> None:
    async with run() as driver:
        show_images(driver.host, image_part(40, 20))
        await driver.until(lambda: colours(driver), "the picture")
        child = driver.app.image_cache._decoder.pid  # pyright: ignore[reportPrivateUsage]
        assert psutil.pid_exists(child)
    assert not psutil.pid_exists(child)


async def test_the_image_cache_keeps_a_bounded_number_of_decoded_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcphost.tui.image_cache.MAX_CACHED_BYTES", 4_000)
    gallery = ImageCache()
    for size in range(10, 30):
        await gallery.decode(image_part(size, size).data, 100, 100)
    assert gallery.cached_bytes <= 4_000
    assert gallery.entry_count < 5
    await gallery.close()
