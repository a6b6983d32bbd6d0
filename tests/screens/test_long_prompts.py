"""Tests for prompts and templates with long descriptions and many arguments: opened in steps, sent completely."""

from typing import Any

import pytest
from textual.widgets import Input, Static

from mcphost.protocol.prompts import GetPromptResult, Prompt, PromptArgument
from mcphost.protocol.resources import ResourceTemplate
from mcphost.serialization import replace
from mcphost.tui.screens.prompts import PromptArgumentsForm, PromptsScreen
from mcphost.tui.screens.resources import ResourceTemplateForm
from mcphost.tui.widgets.key_values import QuotedText
from mcphost.tui.widgets.stepped_column import SteppedColumn
from tests.screens.conftest import AppDriver, Run
from tests.screens.fake_host import sample_server

pytestmark = pytest.mark.anyio


COUNT = 40


def long_prompt(**more: Any) -> Prompt:
    """Return a prompt with many arguments."""
    arguments = tuple(PromptArgument(name=f"argument {number}", description="d" * 900) for number in range(COUNT))
    return Prompt(name="long", arguments=arguments, **more)


async def open_form(driver: AppDriver, prompt: Prompt) -> PromptArgumentsForm:
    """Open the form for the arguments of *prompt*."""
    form = PromptArgumentsForm(driver.host, "files", prompt)  # type: ignore[arg-type]
    driver.app.push_screen(form)
    await driver.until(lambda: driver.app.screen is form and isinstance(driver.app.focused, Input), "the form")
    return form


async def test_a_form_of_many_arguments_is_mounted_in_steps_and_sends_the_last_one(run: Run) -> None:
    requests: list[dict[str, str]] = []

    async def answer(server: str, name: str, arguments: dict[str, str]) -> GetPromptResult:
        requests.append(arguments)
        return GetPromptResult()

    async with run() as driver:
        driver.host.features.get_prompt = answer  # type: ignore[method-assign]
        form = await open_form(driver, long_prompt())
        column = form.query_one(SteppedColumn)
        await driver.until(lambda: column.is_whole, "all of them")
        assert len(form.query(Input)) == COUNT
        assert driver.app.screen.region.contains_region(form.query_one("#keys").region), "the keys can be seen"
        form.query_one("#argument-39", Input).value = "last"
        await driver.type("first")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: requests, "the request")
        assert requests == [{"argument 0": "first", "argument 39": "last"}]


async def test_a_required_argument_that_is_not_mounted_yet_is_not_missed(run: Run) -> None:
    prompt = long_prompt()
    last = replace(prompt.arguments[-1], required=True)
    async with run() as driver:
        form = await open_form(driver, replace(prompt, arguments=(*prompt.arguments[:-1], last)))
        form.action_insert()
        await driver.until(lambda: "argument 39 is required." in driver.text(), "what is missing")
        await driver.until(lambda: driver.app.focused is form.query_one("#argument-39"), "its field")


async def test_keys_that_come_before_all_inputs_are_mounted_fill_each_input(run: Run) -> None:
    async with run() as driver:
        form = await open_form(driver, long_prompt())
        assert not form.query_one(SteppedColumn).is_whole
        letters = "abcdefghijkl"
        driver.press_together(*(one for letter in letters for one in (letter, "tab")))
        await driver.until(lambda: len(form.values()) >= len(letters), "the values")
        assert form.values() == {f"argument {number}": letter for number, letter in enumerate(letters)}


async def test_the_list_of_prompts_shows_the_first_arguments_and_counts_the_others(run: Run) -> None:
    server = sample_server("files")
    view = replace(server, catalog=replace(server.catalog, prompts=(long_prompt(),)))
    async with run(size=(120, 60)) as driver:
        driver.host.servers.views = lambda: (view,)  # type: ignore[method-assign]
        driver.app.push_screen(PromptsScreen(driver.host))  # type: ignore[arg-type]
        await driver.until(lambda: "argument 0" in driver.text(), "the details")
        details = str(driver.app.screen.query_one("#about", Static).content)
        assert "argument 19" in details
        assert "argument 20" not in details
        assert "and 20 more" in details
        assert len(details) < 10_000


async def test_only_the_beginning_of_a_long_description_is_above_a_form(run: Run) -> None:
    async with run() as driver:
        form = await open_form(driver, long_prompt(description="\n".join("word" for _ in range(100_000))))
        quoted = form.query_one(QuotedText).plain
        assert len(quoted) < 2_100
        assert quoted.endswith("…")
        visible = driver.app.screen.region
        assert visible.contains_region(form.query_one("#argument-0").region), "its input can be seen"
        assert visible.contains_region(form.query_one("#keys").region)


async def test_a_tall_description_is_read_to_its_end_with_page_down_while_an_input_has_the_focus(run: Run) -> None:
    description = "\n".join(f"line {number}" for number in range(40))
    arguments = (PromptArgument(name="topic"),)
    async with run(size=(80, 24)) as driver:
        await open_form(driver, Prompt(name="tall", arguments=arguments, description=description))
        await driver.until(lambda: "page up/down" in driver.text(), "the keys")
        assert "line 39" not in driver.text()
        for _step in range(20):
            await driver.pilot.press("pagedown")
        await driver.until(lambda: "line 39" in driver.text(), "the end")
        for _step in range(20):
            await driver.pilot.press("pageup")
        await driver.until(lambda: "line 0" in driver.text(), "the beginning")
        assert isinstance(driver.app.focused, Input)


async def test_a_short_description_has_no_hint_about_scrolling(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_form(driver, Prompt(name="short", arguments=(PromptArgument(name="topic"),), description="Says it."))
        await driver.until(lambda: "Says it." in driver.text(), "the description")
        assert "page up/down" not in driver.text()


async def test_a_short_description_leaves_its_rows_to_the_inputs(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        form = await open_form(driver, long_prompt(description="Says it."))
        column = form.query_one(SteppedColumn)
        await driver.until(lambda: column.is_whole and column.size.height >= 8, "the inputs")
        box = form.query_one("#box").content_region
        assert all(box.contains_region(form.query_one(name).region) for name in ("#fault", "#insert", "#keys"))


async def test_a_template_with_a_long_description_and_many_variables_shows_its_input_and_its_address(run: Run) -> None:
    template = ResourceTemplate(
        uri_template="file:///" + "".join(f"{{v{number}}}" for number in range(COUNT)),
        name="many",
        description="word " * 5_000,
    )
    async with run() as driver:
        form = ResourceTemplateForm(driver.host, "files", template)  # type: ignore[arg-type]
        driver.app.push_screen(form)
        await driver.until(lambda: driver.app.screen is form and isinstance(driver.app.focused, Input), "the form")
        await driver.until(lambda: form.query_one(SteppedColumn).is_whole, "all of them")
        visible = driver.app.screen.region
        for name in ("#value-0", "#made", "#keys"):
            assert visible.contains_region(form.query_one(name).region), name
        form.query_one("#value-39", Input).value = "last"
        await driver.until(lambda: "file:///last" in driver.text(), "the address")
