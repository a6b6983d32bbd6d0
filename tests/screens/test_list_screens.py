"""Resources, prompts, servers: found, looked at, used."""

from typing import Any

import pytest
from textual.widgets import Input

from mcphost.errors import RequestRefused
from mcphost.host.events import ResourceChanged
from mcphost.protocol.content import ResourceContents
from mcphost.protocol.resources import ReadResourceResult
from mcphost.serialization import replace
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost, sample_server

pytestmark = pytest.mark.anyio


async def say_ok(host: FakeHost, turn: int, text: str) -> str:
    host.say(turn, "ok")
    return "ok"


@pytest.mark.req("res.app-driven")
async def test_a_resource_is_previewed_attached_and_sent(run: Run) -> None:
    async with run(turn=say_ok, size=(120, 40)) as it:
        await it.pilot.press("f4")
        await it.until(lambda: "It reads files." in it.text(), "the preview")
        assert "file:///project/README.md" in it.text()
        await it.pilot.press("enter")
        await it.until(lambda: it.app.query_one(Composer).attachment_names, "the attachment")
        assert "README.md" in it.text()
        await it.type("look")
        await it.pilot.press("enter")
        await it.until(lambda: it.host.sent)
        text, parts = it.host.sent[0]
        assert text == "look"
        assert parts[0].uri == "file:///project/README.md"
        assert "It reads files." in parts[0].text
        await it.until(lambda: not it.app.query_one(Composer).attachment_names)


async def test_json_is_previewed_indented(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await it.pilot.press("f4", "down")
        await it.until(lambda: '"a": [' in it.text(), "indented JSON")


@pytest.mark.req("res.app-driven")
async def test_search_narrows_the_list(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await it.pilot.press("f4")
        await it.pilot.press("ctrl+f")
        await it.type("github data")
        await it.until(lambda: len(it.app.screen.visible_rows) == 1)
        assert it.app.screen.visible_rows[0].title == "data.json"


async def test_an_at_sign_attaches_a_resource_from_the_popup(run: Run) -> None:
    async with run() as it:
        await it.type("see @READ")
        await it.pilot.pause()
        await it.pilot.press("tab")
        await it.until(lambda: it.app.query_one(Composer).attachment_names, "the attachment")
        assert it.app.query_one(Composer).composer_input.text == "see "


async def test_backspace_in_an_empty_message_removes_the_attachment(run: Run) -> None:
    async with run() as it:
        it.app.chat.attach_resource("files", "file:///project/README.md")
        await it.until(lambda: it.app.query_one(Composer).attachment_names)
        await it.pilot.press("backspace")
        await it.until(lambda: not it.app.query_one(Composer).attachment_names)


@pytest.mark.req("prompts.args.form")
@pytest.mark.req("prompts.args.omit-empty")
@pytest.mark.req("prompts.user-controlled")
async def test_a_prompt_is_filled_and_inserted(run: Run) -> None:
    async with run(size=(100, 30)) as it:
        await it.pilot.press("f5", "enter")
        await it.until(lambda: type(it.app.screen).__name__ == "PromptArgumentsForm", "the form")
        assert "required" in it.text()
        await it.pilot.press("enter", "enter", "enter")
        await it.until(lambda: "path is required." in it.text())
        await it.type("main.py")
        await it.pilot.press("enter", "enter", "enter")
        await it.until(lambda: it.app.query_one(Composer).composer_input.text == "Please review path main.py")


async def test_a_slash_offers_the_servers_prompts(run: Run) -> None:
    async with run() as it:
        await it.type("/files:gre")
        await it.pilot.press("enter")
        await it.until(lambda: type(it.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await it.pilot.press("enter")
        await it.until(lambda: it.app.query_one(Composer).composer_input.text.startswith("Please greet"))


async def test_a_server_shows_its_state_tools_and_log_and_can_be_restarted(run: Run) -> None:
    from mcphost.host.events import ServerLog

    log = (ServerLog("bad", "error", "Traceback \x1b[31m", "stderr"),)
    views = (
        sample_server("bad", "failed", detail="It ended.", hint="Look at its log.", log=log),
        sample_server("good"),
    )
    async with run(views=views, size=(120, 40)) as it:
        await it.pilot.press("f3")
        await it.until(lambda: "Look at its log." in it.text())
        assert "Traceback ␛[31m" in it.text()
        await it.pilot.press("r")
        assert it.host.restarted == ["bad"]
        await it.pilot.press("down")
        await it.until(lambda: "2026-07-28" in it.text())
        assert "search_files" in it.text()
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is it.app.chat)


@pytest.mark.req("life.init.server-info-extra")
@pytest.mark.req("life.init.instructions")
async def test_what_a_server_says_of_itself_is_shown_and_what_was_counted(run: Run) -> None:
    from mcphost.protocol.lifecycle import Implementation
    from mcphost.serialization import replace

    view = sample_server("files", counts={"pings missed": 2})
    assert view.facts is not None
    info = Implementation("f", "2", "The Files", "Reads \x1b[31mfiles", "https://f.example")
    view = replace(view, facts=replace(view.facts, info=info, instructions="Ask first.\nThen read."))
    async with run(
        views=(view, sample_server("slow", "silent", detail="It has not answered for 3 s.")), size=(120, 40)
    ) as it:
        await it.pilot.press("f3")
        await it.until(lambda: "The Files 2" in it.text())
        for words in ("Reads ␛[31mfiles", "https://f.example", "Ask first.", "Then read.", "pings missed: 2"):
            assert words in it.text()
        await it.pilot.press("down")
        await it.until(lambda: "not answering" in it.text())
        assert "It has not answered for 3 s." in it.text()


async def test_an_open_page_follows_what_the_servers_do(run: Run) -> None:
    from mcphost.host.events import ServerState

    async with run(views=(sample_server("late", "connecting"),), size=(120, 40)) as it:
        await it.pilot.press("f3")
        await it.until(lambda: "starting…" in it.text())
        it.host.views = (sample_server("late"),)
        it.host.put(ServerState("late", "ready", tools=2))
        await it.until(lambda: "search_files" in it.text(), "its tools")


async def test_a_server_that_starts_says_for_how_long(run: Run) -> None:
    views = (
        sample_server("far", "connecting", starting_seconds=12.4),
        sample_server("a-rather-long-name", "connecting", starting_seconds=7.9),
    )
    async with run(views=views, size=(120, 40)) as it:
        await it.until(lambda: "starting · 12 s" in it.text() and "7 s" in it.text())
        assert "a-rather-long" in it.text()
        await it.pilot.press("f3")
        await it.until(lambda: "starting · 7 s" in it.text())
        it.host.views = (replace(views[0], starting_seconds=13.5), views[1])
        await it.until(lambda: "starting · 13 s" in it.text())


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("f3", "No servers are configured"),
        ("f4", "No server offers resources"),
        ("f5", "No server offers prompts"),
        ("f6", "No conversations yet"),
    ],
)
async def test_every_empty_list_says_what_would_fill_it(run: Run, key: str, words: str) -> None:
    async with run(size=(120, 40)) as it:
        it.host.views = ()
        await it.pilot.press(key)
        await it.until(lambda: words in it.text())


async def test_pages_replace_each_other_and_escape_goes_back(run: Run) -> None:
    async with run() as it:
        for key in ("f3", "f4", "f5", "f6", "f1"):
            await it.pilot.press(key)
            await it.pilot.pause()
        assert len(it.app.screen_stack) == 2
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is it.app.chat)


@pytest.mark.req("prompts.errors")
@pytest.mark.parametrize("code", [-32602, -32603])
async def test_a_refused_prompt_is_reported_on_its_form_which_keeps_the_input(run: Run, code: int) -> None:
    async def refuses(server: str, name: str, arguments: dict[str, str]) -> Any:
        raise RequestRefused(f"The path is {arguments['path']!r}\x1b[2J, not a file.", code=code)

    async with run(size=(100, 30)) as it:
        it.host.features.get_prompt = refuses
        await it.pilot.press("f5", "enter")
        await it.until(lambda: type(it.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await it.type("main.py")
        await it.pilot.press("enter", "enter", "enter")
        await it.until(lambda: "The path is 'main.py'␛[2J, not a file." in it.text(), "the error")
        assert it.app.screen.query_one("#argument-0", Input).value == "main.py"


@pytest.mark.req("prompts.description")
async def test_a_prompt_says_what_it_is_for_and_what_it_needs(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await it.pilot.press("f5")
        await it.until(lambda: "What to review" in it.text(), "its arguments")
        assert "Review a change" in it.text()
        await it.pilot.press("enter")
        await it.until(lambda: type(it.app.screen).__name__ == "PromptArgumentsForm", "the form")
        assert "Review a change" in it.text()
        assert "What to look at" in it.text()


@pytest.mark.req("res.text-not-binary")
@pytest.mark.req("res.read.blob")
async def test_what_a_resource_holds_is_shown_as_text_that_no_terminal_obeys(run: Run) -> None:
    async def hostile(server: str, uri: str) -> ReadResourceResult:
        parts = (
            ResourceContents(uri=uri, text="red \x1b[31m and \u202e back\r\n\x07end"),
            ResourceContents(uri=uri, blob="G1sySg==", mime_type="text/plain"),
        )
        return ReadResourceResult(contents=parts)

    async with run(size=(120, 40)) as it:
        it.host.features.read_resource = hostile
        await it.pilot.press("f4")
        await it.until(lambda: "red ␛[31m and ‹U+202E› back" in it.text(), "the text, harmless")
        assert "text/plain, 4 bytes]" in it.text()
        assert "\x1b[2J" not in it.text()


@pytest.mark.req("res.updated")
async def test_a_changed_watched_resource_is_read_again_and_reported_once(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        words = "as it was"

        async def read(server: str, uri: str) -> ReadResourceResult:
            return ReadResourceResult(contents=(ResourceContents(uri=uri, text=words),))

        it.host.features.read_resource = read
        await it.pilot.press("f4")
        await it.until(lambda: "as it was" in it.text(), "the preview")
        await it.pilot.press("w")
        await it.until(lambda: "changes are reported" in it.text(), "that it is watched")
        assert it.host.features.subscribed_uris("files") == ("file:///project/README.md",)
        words = "not as it was any more"
        for _ in range(3):
            it.host.put(ResourceChanged("files", "file:///project/README.md"))
        await it.until(lambda: "not as it was any more" in it.text(), "the new content")
        await it.pilot.press("w")
        await it.until(lambda: "changes are reported" not in it.text(), "that it is not")
        await it.pilot.press("escape")
        await it.until(lambda: it.app.screen is it.app.chat)
        assert it.text().count("README.md has changed.") == 1


async def test_a_resource_that_cannot_be_watched_says_why(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await it.pilot.press("f4", "down", "w")
        await it.until(lambda: any("offers no" in one.message for one in it.app._notifications), "why not")


@pytest.mark.req("res.size")
async def test_a_big_resource_is_not_read_before_it_is_requested(run: Run) -> None:
    big = sample_server("files")
    one = replace(big.catalog.resources[0], size=12_000_000)
    views = (replace(big, catalog=replace(big.catalog, resources=(one,))),)
    async with run(views=views, size=(120, 40)) as it:
        await it.pilot.press("f4")
        await it.until(lambda: "Large resource: 12,000,000 bytes. Press p to read it." in it.text(), "the warning")
        assert "about 3,000,000 tokens of text" in it.text()
        await it.pilot.press("p")
        await it.until(lambda: "It reads files." in it.text(), "its content")


@pytest.mark.req("res.title")
async def test_a_resource_is_listed_by_its_title_and_without_one_by_its_name(run: Run) -> None:
    files = sample_server("files")
    readme, data = files.catalog.resources
    named = (replace(readme, title="How to begin"), data)
    views = (replace(files, catalog=replace(files.catalog, resources=named)),)
    async with run(views=views, size=(120, 40)) as it:
        await it.pilot.press("f4")
        await it.until(lambda: "It reads files." in it.text(), "the preview")
        assert [shown.title for shown in it.app.screen.visible_rows][:2] == ["How to begin", "data.json"]
        assert "How to begin" in it.text()


@pytest.mark.parametrize(("key", "there"), [("f7", ()), ("f12", ()), ("f10", ("v verify",)), ("ctrl+o", ("a add",))])
async def test_a_list_without_an_entry_offers_no_key_that_does_nothing_there(
    run: Run, key: str, there: tuple[str, ...]
) -> None:
    async with run(size=(80, 24), views=()) as it:
        await it.pilot.press(key)
        await it.until(lambda: "esc back" in it.text(), "the page")
        keys = it.text().splitlines()[-1].split("  ")
        assert [one.strip() for one in keys if one.strip()] == [*there, "esc back"]


async def test_an_entry_brings_its_keys_and_a_search_that_finds_none_keeps_them(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await it.pilot.press("f3")
        await it.until(lambda: "^F search" in it.text() and "t tools" in it.text(), "the keys")
        await it.pilot.press("ctrl+f", "z", "z", "z")
        await it.until(lambda: "No matches." in it.text(), "nothing")
        assert "^F search" in it.text()
