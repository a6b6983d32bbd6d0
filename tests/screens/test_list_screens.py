"""Tests for finding, viewing and using resources, prompts and servers in lists."""

from typing import Any

import pytest
from textual.widgets import Input

from mcphost.errors import RequestRefused
from mcphost.host.events import ResourceChanged, ServerState
from mcphost.host.servers.status import RESTART_HINT
from mcphost.protocol.content import ResourceContents
from mcphost.protocol.resources import ReadResourceResult
from mcphost.serialization import replace
from mcphost.tui.screens.list_screen import ListRow, ListScreen
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.status_bars import KeyBar
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeHost, sample_facts, sample_server

pytestmark = pytest.mark.anyio


async def say_ok(host: FakeHost, turn: int, text: str) -> str:
    host.say(turn, "ok")
    return "ok"


@pytest.mark.req("res.app-driven")
async def test_a_resource_is_previewed_attached_and_sent(run: Run) -> None:
    async with run(turn=say_ok, size=(120, 40)) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "It reads files." in driver.text(), "the preview")
        assert "file:///project/README.md" in driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        assert "README.md" in driver.text()
        await driver.type("look")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent)
        text, parts = driver.host.sent[0]
        assert text == "look"
        assert parts[0].uri == "file:///project/README.md"
        assert "It reads files." in parts[0].text
        await driver.until(lambda: not driver.app.query_one(Composer).attachment_names)


async def test_json_is_previewed_indented(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f4", "down")
        await driver.until(lambda: '"a": [' in driver.text(), "indented JSON")


@pytest.mark.req("res.app-driven")
async def test_search_narrows_the_list(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f4")
        await driver.pilot.press("ctrl+f")
        await driver.type("github data")
        await driver.until(lambda: len(driver.app.screen.visible_rows) == 1)
        assert driver.app.screen.visible_rows[0].title == "data.json"


async def test_an_at_sign_attaches_a_resource_from_the_popup(run: Run) -> None:
    async with run() as driver:
        await driver.type("see @READ")
        await driver.pilot.pause()
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        assert driver.app.query_one(Composer).composer_input.text == "see "


async def test_backspace_in_an_empty_message_removes_the_attachment(run: Run) -> None:
    async with run() as driver:
        driver.app.chat.attachments.add_resource("files", "file:///project/README.md")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names)
        await driver.pilot.press("backspace")
        await driver.until(lambda: not driver.app.query_one(Composer).attachment_names)


@pytest.mark.req("prompts.args.form")
@pytest.mark.req("prompts.args.omit-empty")
@pytest.mark.req("prompts.user-controlled")
async def test_a_prompt_is_filled_and_inserted(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        await driver.pilot.press("f5", "enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        assert "required" in driver.text()
        await driver.pilot.press("enter", "enter", "enter")
        await driver.until(lambda: "path is required." in driver.text())
        await driver.type("main.py")
        await driver.pilot.press("enter", "enter", "enter")
        await driver.until(lambda: driver.app.query_one(Composer).composer_input.text == "Please review path main.py")


@pytest.mark.parametrize("is_clicked", [False, True])
async def test_back_from_the_form_of_a_prompt_returns_to_the_list_of_prompts(run: Run, is_clicked: bool) -> None:
    async with run(size=(100, 30)) as driver:
        await driver.pilot.press("f5")
        await driver.until(lambda: len(driver.app.screen.visible_rows) > 1, "the prompts")
        await driver.pilot.press("down")
        _, chosen = driver.app.screen.current_row().value
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await (driver.pilot.click("#leave") if is_clicked else driver.pilot.press("escape"))
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptsScreen", "the list")
        await driver.until(lambda: driver.app.screen.current_row().value[1] == chosen, "the prompt chosen before")


async def test_esc_in_the_form_of_a_prompt_chosen_with_a_slash_returns_to_the_message(run: Run) -> None:
    async with run() as driver:
        await driver.type("/files:gre")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")


async def test_a_slash_offers_the_servers_prompts(run: Run) -> None:
    async with run() as driver:
        await driver.type("/files:gre")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(Composer).composer_input.text.startswith("Please greet"))


async def test_a_server_shows_its_state_tools_and_log_and_can_be_restarted_and_stopped(run: Run) -> None:
    from mcphost.host.events import ServerLog

    log = (ServerLog("bad", "error", "Traceback \x1b[31m", "stderr"),)
    views = (
        sample_server("bad", "failed", detail="It ended.", hint="Look at its log.", log=log),
        sample_server("good"),
    )
    async with run(views=views, size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "Look at its log." in driver.text())
        assert "Traceback ␛[31m" in driver.text()
        await driver.pilot.press("r")
        await driver.until(lambda: driver.host.restarted == ["bad"], "the restart")
        await driver.pilot.press("p")
        await driver.until(lambda: driver.host.stopped == ["bad"], "the stop")
        await driver.pilot.press("down")
        await driver.until(lambda: "2026-07-28" in driver.text())
        assert "search_files" in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat)


@pytest.mark.parametrize("word", ["postgres", "restart", "disable", "xx-large", "Xx", "oops", "under"])
@pytest.mark.parametrize("keys", [(), ("tab",)], ids=["list", "details"])
async def test_a_word_typed_on_the_servers_page_is_searched_for_and_changes_no_server(
    run: Run, word: str, keys: tuple[str, ...]
) -> None:
    async with run() as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "Servers" in driver.text() and driver.app.screen.focused, "the page")
        await driver.pilot.press(*keys)
        driver.press_together(*word)
        await driver.until(lambda: driver.app.screen.query_one("#search", Input).value == word, "the search")
        assert driver.host.restarted == driver.host.stopped == []
        assert not driver.app._notifications


@pytest.mark.parametrize("key", ["r", "p"])
async def test_a_disabled_server_is_neither_restarted_nor_stopped_and_the_screen_names_the_key_that_enables_it(
    run: Run, key: str
) -> None:
    view = sample_server("off", "disabled")
    views = (replace(view, config=replace(view.config, disabled=True)),)
    async with run(views=views, size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "disabled" in driver.text())
        await driver.pilot.press(key)
        await driver.until(lambda: driver.has_notified("off is disabled. d enables it."))
        assert "Restarting" not in driver.text()
        assert driver.host.restarted == driver.host.stopped == []


@pytest.mark.req("life.init.server-info-extra")
@pytest.mark.req("life.init.instructions")
async def test_a_servers_declarations_and_its_counters_are_shown(run: Run) -> None:
    from mcphost.protocol.lifecycle import Implementation
    from mcphost.serialization import replace

    view = sample_server("files", counts={"pings missed": 2})
    assert view.facts is not None
    info = Implementation("f", "2", "The Files", "Reads \x1b[31mfiles", "https://f.example")
    view = replace(view, facts=replace(view.facts, info=info, instructions="Ask first.\nThen read."))
    async with run(
        views=(view, sample_server("slow", "silent", detail="It has not answered for 3 s.")), size=(120, 40)
    ) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "The Files 2" in driver.text())
        for words in ("Reads ␛[31mfiles", "https://f.example", "Ask first.", "Then read.", "pings missed: 2"):
            assert words in driver.text()
        await driver.pilot.press("down")
        await driver.until(lambda: "not answering" in driver.text())
        assert "It has not answered for 3 s." in driver.text()


async def test_a_server_with_a_url_is_connecting_or_tried_again_and_not_accused(run: Run) -> None:
    remote = sample_server("remote", "connecting", starting_seconds=3.4)
    remote = replace(remote, config=replace(remote.config, command="", args=(), url="https://example.com/mcp"))
    down = sample_server("down", "unreachable", detail="It cannot be reached.", retry_seconds=1.2)
    async with run(views=(remote, down), size=(120, 40)) as driver:
        await driver.until(lambda: "3 s" in driver.text(), "the server list")
        await driver.pilot.press("f3")
        await driver.until(lambda: "unreachable · tries again in 2 s" in driver.text(), "the next attempt")
        assert "connecting · 3 s" in driver.text()
        await driver.pilot.press("down")
        await driver.until(lambda: "r tries now." in driver.text(), "the key")


async def test_only_keys_that_apply_to_the_selected_server_are_offered(run: Run) -> None:
    remote = sample_server("remote")
    remote = replace(remote, config=replace(remote.config, command="", args=(), url="https://example.com/mcp"))
    async with run(views=(sample_server("files"), remote), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "files-server" in driver.text(), "the local server")
        bar = driver.app.screen.query_one(KeyBar)
        assert "sign in" not in bar.render().plain
        assert "accounts" not in bar.render().plain
        await driver.pilot.press("down")
        await driver.until(lambda: "https://example.com/mcp" in driver.text(), "the remote server")
        assert "s sign in  a accounts" in bar.render().plain


async def test_a_server_cannot_imitate_a_section_of_its_page(run: Run) -> None:
    facts = replace(sample_facts(), instructions="── log\nAll is well.")
    view = sample_server("files")
    tool = replace(view.catalog.tools[0], description="Find text. " * 20)
    view = replace(view, facts=facts, catalog=replace(view.catalog, tools=(tool,)))
    async with run(views=(view,), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "All is well" in driver.text() and "nothing yet" in driver.text(), "the text")
        headings = [line.partition("── ")[2].strip() for line in driver.text().split("\n") if " ── " in line]
        assert headings == ["tools", "instructions for the model, truncated if long", "log", "log (l shows all)"]
        assert "│ ── log" in driver.text()
        assert "│ search_files: Find text." in driver.text()
        assert "┆ " in driver.text()


async def test_an_open_page_follows_the_state_of_the_servers(run: Run) -> None:
    from mcphost.host.events import ServerState

    async with run(views=(sample_server("late", "connecting"),), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "starting…" in driver.text())
        driver.host.views = (sample_server("late"),)
        driver.host.put(ServerState("late", "ready", tools=2))
        await driver.until(lambda: "search_files" in driver.text(), "its tools")


async def test_a_page_below_another_one_follows_the_state_of_the_servers(run: Run) -> None:
    async with run(views=(sample_server("late", "connecting"),), size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "starting…" in driver.text(), "the starting server")
        await driver.pilot.press("l")
        await driver.until(lambda: "Log of late" in driver.text(), "its log")
        driver.host.views = (sample_server("late"),)
        driver.host.put(ServerState("late", "ready", tools=2))
        await driver.pilot.press("escape")
        await driver.until(lambda: "search_files" in driver.text(), "its tools")
        assert "starting" not in driver.text()


async def test_a_starting_server_shows_for_how_long(run: Run) -> None:
    views = (
        sample_server("far", "connecting", starting_seconds=12.4),
        sample_server("a-rather-long-name", "connecting", starting_seconds=7.9),
    )
    async with run(views=views, size=(120, 40)) as driver:
        await driver.until(lambda: "starting · 12 s" in driver.text() and "7 s" in driver.text())
        assert "a-rather-long" in driver.text()
        await driver.pilot.press("f3")
        await driver.until(lambda: "starting · 7 s" in driver.text())
        driver.host.views = (replace(views[0], starting_seconds=13.5), views[1])
        await driver.until(lambda: "starting · 13 s" in driver.text())


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("f3", "No servers are configured"),
        ("f4", "No server offers resources"),
        ("f5", "No server offers prompts"),
        ("f6", "No conversations yet"),
    ],
)
async def test_every_empty_list_shows_how_to_fill_it(run: Run, key: str, words: str) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.views = ()
        await driver.pilot.press(key)
        await driver.until(lambda: words in driver.text())


async def test_pages_replace_each_other_and_escape_goes_back(run: Run) -> None:
    async with run() as driver:
        for key in ("f3", "f4", "f5", "f6", "f1"):
            await driver.pilot.press(key)
            await driver.pilot.pause()
        assert len(driver.app.screen_stack) == 2
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat)


@pytest.mark.req("prompts.errors")
@pytest.mark.parametrize("code", [-32602, -32603])
async def test_a_refused_prompt_is_reported_on_its_form_which_keeps_the_input(run: Run, code: int) -> None:
    async def refuses(server: str, name: str, arguments: dict[str, str]) -> Any:
        raise RequestRefused(f"The path is {arguments['path']!r}\x1b[2J, not a file.", code=code)

    async with run(size=(100, 30)) as driver:
        driver.host.features.get_prompt = refuses
        await driver.pilot.press("f5", "enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await driver.type("main.py")
        await driver.pilot.press("enter", "enter", "enter")
        await driver.until(lambda: "The path is 'main.py'␛[2J, not a file." in driver.text(), "the error")
        assert driver.app.screen.query_one("#argument-0", Input).value == "main.py"


async def test_control_s_inserts_a_prompt_from_any_of_its_fields(run: Run) -> None:
    async def refuses(server: str, name: str, arguments: dict[str, str]) -> Any:
        raise RequestRefused(f"The path is {arguments['path']!r}.")

    async with run(size=(100, 30)) as driver:
        driver.host.features.get_prompt = refuses
        await driver.pilot.press("f5", "enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        await driver.type("main.py")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "The path is 'main.py'." in driver.text(), "the request")


@pytest.mark.req("prompts.description")
async def test_a_prompt_shows_its_purpose_and_its_arguments(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f5")
        await driver.until(lambda: "What to review" in driver.text(), "its arguments")
        assert "Review a change" in driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "PromptArgumentsForm", "the form")
        assert "Review a change" in driver.text()
        assert "What to look at" in driver.text()


@pytest.mark.req("res.text-not-binary")
@pytest.mark.req("res.read.blob")
async def test_the_content_of_a_resource_is_shown_as_text_without_control_sequences(run: Run) -> None:
    async def hostile(server: str, uri: str) -> ReadResourceResult:
        parts = (
            ResourceContents(uri=uri, text="red \x1b[31m and \u202e back\r\n\x07end"),
            ResourceContents(uri=uri, blob="G1sySg==", mime_type="text/plain"),
        )
        return ReadResourceResult(contents=parts)

    async with run(size=(120, 40)) as driver:
        driver.host.features.read_resource = hostile
        await driver.pilot.press("f4")
        await driver.until(lambda: "red ␛[31m and ‹U+202E› back" in driver.text(), "the text, harmless")
        assert "text/plain, 4 bytes]" in driver.text()
        assert "\x1b[2J" not in driver.text()


@pytest.mark.req("res.updated")
async def test_a_changed_watched_resource_is_read_again_and_its_changes_are_counted(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        words = "as it was"

        async def read(server: str, uri: str) -> ReadResourceResult:
            return ReadResourceResult(contents=(ResourceContents(uri=uri, text=words),))

        driver.host.features.read_resource = read
        await driver.pilot.press("f4")
        await driver.until(lambda: "as it was" in driver.text(), "the preview")
        await driver.pilot.press("w")
        await driver.until(lambda: "changes are reported" in driver.text(), "that it is watched")
        assert driver.host.features.subscribed_uris("files") == ("file:///project/README.md",)
        words = "not as it was any more"
        for _ in range(3):
            driver.host.put(ResourceChanged("files", "file:///project/README.md"))
        await driver.until(lambda: "not as it was any more" in driver.text(), "the new content")
        await driver.pilot.press("w")
        await driver.until(lambda: "changes are reported" not in driver.text(), "that it is not")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat)
        assert driver.text().count("has changed") == 1
        assert "README.md has changed 3 times." in driver.text()


@pytest.mark.parametrize("page", ["/servers", "/resources", "/tasks"])
async def test_a_server_that_cannot_be_reached_is_shown_so_until_it_answers(run: Run, page: str) -> None:
    ready = sample_server("files")
    lost = replace(ready, state="unreachable", detail="The server 'files' cannot be reached: refused.")
    shown = {
        "/servers": ("◌ files", "● files"),
        "/resources": ("interrupted: changes are not reported", "yes: changes are reported"),
        "/tasks": ("files · subscription interrupted", "files · subscribed"),
    }
    async with run(views=(ready,), size=(140, 40)) as driver:
        driver.host.features.watching["files", "file:///project/README.md"] = None
        await driver.type(page)
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: shown[page][1] in driver.text(), "the ready server")
        driver.host.features.interrupted.add("files")
        driver.host.views = (lost,)
        driver.host.put(ServerState("files", "unreachable"))
        await driver.until(lambda: shown[page][0] in driver.text() and shown[page][1] not in driver.text(), "the loss")
        driver.host.features.interrupted.clear()
        driver.host.views = (ready,)
        driver.host.put(ServerState("files", "ready"))
        await driver.until(lambda: shown[page][1] in driver.text() and shown[page][0] not in driver.text(), "the end")


@pytest.mark.parametrize(
    ("hint", "step"),
    [("Its error output is in mcphost.log.", "r restarts it. Its error output"), (RESTART_HINT, "r restarts it ")],
)
async def test_the_details_of_a_failed_server_name_the_key_that_restarts_it(run: Run, hint: str, step: str) -> None:
    async with run(views=(sample_server("files", "failed", detail="It exited.", hint=hint),), size=(140, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: step in driver.text(), "the next step")


async def test_a_failed_subscription_reports_the_reason(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f4", "down", "w")
        await driver.until(
            lambda: any("offers no" in notification.message for notification in driver.app._notifications), "why not"
        )


@pytest.mark.req("res.size")
async def test_a_big_resource_is_not_read_before_it_is_requested(run: Run) -> None:
    big = sample_server("files")
    one = replace(big.catalog.resources[0], size=12_000_000)
    views = (replace(big, catalog=replace(big.catalog, resources=(one,))),)
    async with run(views=views, size=(120, 40)) as driver:
        await driver.pilot.press("f4")
        await driver.until(
            lambda: "Large resource: 12,000,000 bytes. Press p to read it." in driver.text(), "the warning"
        )
        assert "about 3,000,000 tokens of text" in driver.text()
        await driver.pilot.press("p")
        await driver.until(lambda: "It reads files." in driver.text(), "its content")


async def test_p_reads_a_resource_again_and_leaves_the_arrow_keys_to_the_list(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "It reads files." in driver.text(), "the preview")
        driver.host.features.texts["file:///project/README.md"] = "It writes files."
        await driver.pilot.press("p")
        await driver.until(lambda: "It writes files." in driver.text(), "the new text")
        await driver.pilot.press("down")
        await driver.until(lambda: "file:///project/data.json" in driver.text(), "the next resource")


@pytest.mark.req("res.title")
async def test_a_resource_is_listed_by_its_title_or_else_its_name(run: Run) -> None:
    files = sample_server("files")
    readme, data = files.catalog.resources
    named = (replace(readme, title="How to begin"), data)
    views = (replace(files, catalog=replace(files.catalog, resources=named)),)
    async with run(views=views, size=(120, 40)) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "It reads files." in driver.text(), "the preview")
        assert [shown.title for shown in driver.app.screen.visible_rows][:2] == ["How to begin", "data.json"]
        assert "How to begin" in driver.text()


@pytest.mark.parametrize(("key", "there"), [("f7", ()), ("f12", ()), ("f10", ("v verify",)), ("ctrl+o", ("a add",))])
async def test_an_empty_list_offers_no_key_without_an_effect(run: Run, key: str, there: tuple[str, ...]) -> None:
    async with run(size=(80, 24), views=()) as driver:
        await driver.pilot.press(key)
        await driver.until(lambda: "esc back" in driver.text(), "the page")
        keys = driver.text().splitlines()[-1].split("  ")
        assert [key.strip() for key in keys if key.strip()] == [*there, "esc back"]


async def test_a_list_with_entries_shows_its_keys_and_a_search_without_matches_keeps_them(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "ctrl+f search" in driver.text() and "t tools" in driver.text(), "the keys")
        await driver.pilot.press("ctrl+f", "z", "z", "z")
        await driver.until(lambda: "No matches." in driver.text(), "nothing")
        assert "ctrl+f search" in driver.text()


class ChangingList(ListScreen):
    """A list screen whose entries the test replaces; `rows` contains their titles and detail lines."""

    rows: tuple[tuple[str, str], ...] = (("files", "a"), ("mail", "a"), ("mail", "b"))

    def load(self) -> list[ListRow]:
        return [ListRow(title, title, detail) for title, detail in self.rows]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((("added", "a"), ("files", "a"), ("mail", "a"), ("mail", "b")), ("mail", "b")),
        ((("mail", "b"),), ("mail", "b")),
        ((("added", "a"), ("files", "a"), ("mail", "changed")), ("mail", "changed")),
        ((("files", "a"), ("added", "a"), ("new", "a"), ("last", "a")), ("new", "a")),
    ],
)
async def test_the_cursor_stays_on_its_entry_when_the_list_changes(
    run: Run, rows: tuple[tuple[str, str], ...], expected: tuple[str, str]
) -> None:
    async with run() as driver:
        screen = ChangingList()
        driver.app.push_screen(screen)
        await driver.until(lambda: "mail" in driver.text())
        await driver.pilot.press("down", "down")
        screen.rows = rows
        screen.reload()
        row = screen.current_row()
        assert row is not None
        assert (row.title, row.detail) == expected


async def test_the_words_of_a_servers_command_are_quoted_as_in_a_shell(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        first, *others = driver.host.views
        config = replace(first.config, command="/bin/sh", args=("-c", "echo a; exit 3"))
        driver.host.views = (replace(first, config=config), *others)
        await driver.pilot.press("f3")
        await driver.until(lambda: "/bin/sh -c 'echo a; exit 3'" in driver.text(), "the command")


@pytest.mark.parametrize(("key", "title"), [("f3", "github"), ("f4", "data.json")])
async def test_a_slash_starts_a_search_and_escape_clears_it_before_it_closes_the_page(
    run: Run, key: str, title: str
) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press(key)
        await driver.until(lambda: isinstance(driver.app.screen, ListScreen), "the page")
        page: Any = driver.app.screen
        await driver.pilot.press("slash")
        await driver.type(title)
        await driver.until(lambda: {row.title for row in page.visible_rows} == {title}, "the found entries")
        assert page.query_one("#search", Input).value == title
        assert "esc clear search" in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: len(page.visible_rows) > 1, "all entries")
        assert page.current_row().title == title
        assert "esc back" in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")


async def test_a_page_below_another_one_is_loaded_again_only_when_it_is_shown_again(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "github" in driver.text(), "the servers")
        page: Any = driver.app.screen
        await driver.pilot.press("t")
        await driver.until(lambda: driver.app.screen is not page and driver.app.screen.is_mounted, "the tools above it")
        before = page.entries
        driver.host.views = (*driver.host.views, sample_server("late", "ready"))
        driver.host.put(ServerState("late", "ready", tools=2))
        driver.host.put(ServerState("late", "ready", tools=3))
        await driver.pilot.pause()
        assert page.entries is before
        await driver.pilot.press("escape")
        await driver.until(lambda: "late" in {row.value for row in page.entries}, "the new server")


async def test_a_page_behind_a_dialog_stays_up_to_date_because_a_part_of_it_is_visible(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: "github" in driver.text(), "the servers")
        page: Any = driver.app.screen
        await driver.pilot.press("ctrl+l")
        await driver.until(lambda: driver.app.screen is not page, "the list of themes")
        driver.host.views = (*driver.host.views, sample_server("late", "ready"))
        driver.host.put(ServerState("late", "ready", tools=2))
        await driver.until(lambda: "late" in {row.value for row in page.entries}, "the new server")
        assert driver.app.screen is not page
