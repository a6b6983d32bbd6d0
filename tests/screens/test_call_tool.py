"""Tests for a tool call by the user on the servers page: its form, its card, and its result in the next message."""

from typing import Any

import pytest
from textual.widgets import TextArea

from mcphost.host.server_views import estimate_definition_tokens
from mcphost.llm.messages import ResourcePart
from mcphost.protocol.tools import Tool
from mcphost.serialization import Raw
from mcphost.tui.dialogs.edit_arguments import NO_ARGUMENTS
from tests.screens.conftest import AppDriver, ManualClock, Run
from tests.screens.real_program import DEMO_SERVER, Files

pytestmark = pytest.mark.anyio


async def open_tools(driver: AppDriver) -> None:
    """Open the list of tools of the server `demo` once it is ready."""
    await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
    await driver.pilot.press("f3", "t")
    await driver.until(lambda: "enabled" in driver.text() and "add" in driver.text(), "the tools page")


async def select_tool(driver: AppDriver, name: str) -> None:
    """Search the list of tools for *name*, and return the focus to the list."""
    await driver.pilot.press("ctrl+f")
    await driver.type(name)
    await driver.pilot.press("enter")
    await driver.until(lambda: "1 of 10" in driver.text(), name)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_form_calls_the_tool_and_its_result_enters_the_next_message(
    files: Files, size: tuple[int, int]
) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open(size) as driver:
        await open_tools(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "Call demo · add" in driver.text(), "the form")
        await driver.type("2")
        await driver.pilot.press("tab")
        await driver.type("40")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "demo · add" in driver.transcript() and "42" in driver.transcript(), "the result")
        assert driver.app.screen is driver.app.chat
        await driver.until(lambda: any("/attach" in one.message for one in driver.app._notifications), "the offer")
        await driver.type("/attach")
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: "demo · add  " in driver.text(), "the attachment")
        (part,) = driver.app.chat.attachments.parts
        assert isinstance(part, ResourcePart)
        assert "42" in part.text
        assert '{"a":2,"b":40}' in part.text.replace(" ", "")
        await driver.type("what is that?")
        await driver.pilot.press("enter")
        await driver.until(lambda: not driver.app.chat.attachments, "the message")


async def test_arguments_are_validated_before_anything_is_sent(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await open_tools(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "Call demo · add" in driver.text(), "the form")
        await driver.type("2")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "required" in driver.text() or "missing" in driver.text().lower(), "the fault")
        assert "Call demo · add" in driver.text()
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: "Call demo" not in driver.text(), "the list")


async def test_a_typed_call_without_its_required_arguments_opens_the_form(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type("!demo/add")
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: "Call demo · add" in driver.text(), "the form")
        await driver.type("2")
        await driver.pilot.press("tab")
        await driver.type("40")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "2 + 40 = 42" in driver.transcript(), "the result")
        await driver.type("!demo/add")
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: "Call demo · add" in driver.text(), "the form")
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: "Call demo" not in driver.text(), "the chat")
        assert driver.transcript().count("demo · add") == 1  # going back calls nothing


@pytest.mark.parametrize(
    ("line", "shown"), [("!demo/roll_dice", "The die shows"), ("!demo/add {}", "The argument 'a' is missing")]
)
async def test_a_typed_call_that_needs_no_form_runs_at_once(files: Files, line: str, shown: str) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await driver.until(lambda: driver.host.servers.view("demo").catalog.tools, "the tools")
        await driver.type(line)
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: shown in driver.transcript(), "the result")


async def test_arguments_can_be_pasted_as_json_into_an_empty_form(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await open_tools(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "Call demo · add" in driver.text(), "the form")
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: "ctrl+e form" in driver.text(), "the JSON")
        assert "required" not in driver.text()
        driver.app.screen.query_one("#arguments-text", TextArea).text = '{"a": 2, "b": 40}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "demo · add" in driver.transcript() and "42" in driver.transcript(), "the result")


async def test_the_form_stays_below_the_description_after_a_look_at_the_json(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await open_tools(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "Call demo · add" in driver.text(), "the form")
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: "ctrl+e form" in driver.text(), "the JSON")
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: "tab/enter next" in driver.text() and "required" in driver.text(), "the form again")
        assert driver.text().index("The server's description:") < driver.text().index("required")


async def test_a_key_that_is_held_down_calls_nothing(files: Files, clock: ManualClock) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open() as driver:
        await open_tools(driver)
        await select_tool(driver, "list_notes")
        for _ in range(8):
            await driver.pilot.press("enter")
            clock.now += 0.05
        await driver.until(lambda: NO_ARGUMENTS in driver.text(), "the form")
        clock.now += 1
        await driver.pilot.press("enter")
        await driver.until(lambda: "list_notes" in driver.transcript(), "the call")


async def test_a_tool_page_shows_what_it_costs_and_when_it_was_last_used(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await open_tools(driver)
        tool: Any = driver.host.servers.view("demo").catalog.tools[0]
        assert f"about {estimate_definition_tokens(tool):,} tokens in each request" in driver.text()
        await driver.until(lambda: "not called yet" in driver.text(), "never called")
        await driver.pilot.press("escape", "escape")
        await driver.host.tools.call("demo", tool.name, {"a": 1, "b": 2})
        await driver.pilot.press("f3")
        await driver.until(lambda: "each request" in driver.text(), "the sum")
        await driver.pilot.press("t")
        await driver.until(lambda: "last called" in driver.text() and "not called yet" not in driver.text(), "the time")


async def test_a_result_that_a_hook_withholds_is_not_attached(run: Run) -> None:
    async with run() as driver:
        driver.host.tools.withheld = "a secret"
        await driver.type("!files/search_files pattern=TODO")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.has_notified("/attach adds the result"), "the offer")
        await driver.app.run_action("attach_result")
        await driver.until(
            lambda: "withheld the result of 'search_files': a secret" in driver.transcript(), "the reason"
        )
        assert driver.app.chat.attachments.parts == []
        driver.host.tools.withheld = ""
        await driver.app.run_action("attach_result")
        await driver.until(lambda: len(driver.app.chat.attachments.parts) == 1, "the result")


async def test_attaching_is_offered_only_after_the_first_call(run: Run) -> None:
    async with run() as driver:
        for number in (1, 2):
            await driver.type("!files/search_files pattern=TODO")
            await driver.pilot.press("enter")
            await driver.until(
                lambda number=number: len(driver.host.conversation.manual_calls) == number, "the end of the call"
            )
            assert driver.has_notified("/attach adds the result") == (number == 1)
            driver.app.clear_notifications()


async def test_results_are_attached_one_at_a_time(run: Run) -> None:
    async with run() as driver:
        for pattern in ("one", "two"):
            await driver.type(f"!files/search_files pattern={pattern}")
            await driver.pilot.press("enter")
            await driver.until(lambda pattern=pattern: f"'{pattern}'" in driver.transcript(), "the result")
        await driver.until(lambda: len(driver.host.conversation.manual_calls) == 2, "both calls")
        driver.app.chat.attach_result()
        driver.app.chat.attach_result()
        await driver.until(lambda: driver.app.chat.attachments.parts, "the latest result")
        await driver.pilot.pause()
        assert ["two" in part.text for part in driver.app.chat.attachments.parts] == [True]
        driver.app.chat.attach_result()
        await driver.until(lambda: len(driver.app.chat.attachments.parts) == 2, "the result before")
        assert "one" in driver.app.chat.attachments.parts[1].text


async def test_attaching_is_not_offered_for_a_failed_call(files: Files) -> None:
    files.write_servers(demo=DEMO_SERVER)
    async with files.open((120, 40)) as driver:
        await driver.until(lambda: driver.host.servers.view("demo").state == "ready", "the server")
        for line, said in (
            ("!demo/add a=x b=1", "The argument 'a'"),
            ("!nosuch/add a=1", "There is no server named 'nosuch'"),
        ):
            await driver.type(line)
            await driver.pilot.press("escape", "enter")
            await driver.until(lambda said=said: said in driver.transcript(), said)
        await driver.until(lambda: not driver.app.chat.manual_calls.is_running, "the end")
        assert not driver.has_notified("/attach adds the result")


async def test_without_a_result_there_is_nothing_to_attach(files: Files) -> None:
    async with files.open() as driver:
        await driver.app.run_action("attach_result")
        await driver.until(lambda: any("no result" in one.message for one in driver.app._notifications), "the reason")
        assert driver.app.chat.attachments.parts == []


def test_a_definition_costs_a_token_for_four_bytes_and_four_for_its_separators() -> None:
    tool = Tool(name="a" * 40, description="b" * 60, input_schema=Raw(b'{"type": "object"}' + b" " * 282))
    assert estimate_definition_tokens(tool) == 104
