"""Tests for resource templates: the user fills in the variables, then attaches the resource like any other."""

import asyncio
from typing import Any

import pytest
from textual.widgets import Input

from mcphost.llm.messages import ResourcePart
from mcphost.protocol.resources import ResourceTemplate
from mcphost.serialization import replace
from mcphost.tui.screens.resources import ResourceTemplateForm
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import Run
from tests.screens.fake_host import sample_server

pytestmark = pytest.mark.anyio


@pytest.mark.req("res.app-driven")
async def test_a_template_is_filled_in_and_its_resource_attached(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.pilot.press("f4")
        await driver.until(lambda: "any file" in driver.text(), "the list")
        await driver.pilot.press("down", "down")
        await driver.until(lambda: "enter fills in the URI" in driver.text(), "what to do")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ResourceTemplateForm", "the form")
        await driver.pilot.press("enter")
        await driver.until(lambda: "path is required" in driver.text(), "a refusal")
        await driver.type("a.md")
        await driver.until(lambda: "file:///a.md" in driver.text(), "the address")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        assert "file:///a.md" in driver.app.query_one(Composer).attachment_names[0]
        assert driver.app.screen is driver.app.chat


@pytest.mark.parametrize("key", ["enter", "tab"])
async def test_text_typed_right_after_a_variable_goes_into_the_next_one(run: Run, key: str) -> None:
    async with run(size=(80, 24)) as driver:
        template = ResourceTemplate(uri_template="file:///{folder}/{file}", name="a file")
        view = driver.host.views[0]
        driver.host.views = (replace(view, catalog=replace(view.catalog, resources=(), templates=(template,))),)
        await driver.pilot.press("f4")
        await driver.until(lambda: "enter fills in the URI" in driver.text(), "the template")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ResourceTemplateForm", "the form")
        driver.press_together(*"docs", key, *"a.md", "enter")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        assert "file:///docs/a.md" in driver.app.query_one(Composer).attachment_names[0]


@pytest.mark.parametrize("keys", [["ctrl+s"], ["tab", "enter"]])
@pytest.mark.parametrize("uri_template", ["file:///{folder}/{file}", "file:///docs/a.md"])
async def test_the_form_of_a_template_has_the_buttons_and_the_key_of_other_forms(
    run: Run, uri_template: str, keys: list[str]
) -> None:
    async with run(size=(80, 24)) as driver:
        template = ResourceTemplate(uri_template=uri_template, name="a file")
        form, made = ResourceTemplateForm(driver.host, "files", template), list[str | None]()  # type: ignore[arg-type]
        driver.app.push_screen(form, made.append)
        await driver.until(lambda: driver.app.screen is form and isinstance(driver.app.focused, Input), "the form")
        await driver.until(lambda: all(word in driver.text() for word in ("Attach", "Back", "ctrl+s")), "the buttons")
        if template.uri_template.endswith("}"):
            await driver.pilot.press(*"docs", "enter", "ctrl+s")
            await driver.until(lambda: "file is required" in driver.text(), "a refusal")
            await driver.pilot.press(*"a.md")
        await driver.pilot.press(*keys)
        await driver.until(lambda: made, "the address")
        assert made == ["file:///docs/a.md"]


async def test_the_back_button_of_the_form_of_a_template_attaches_nothing(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        template = ResourceTemplate(uri_template="file:///{file}", name="a file")
        form, made = ResourceTemplateForm(driver.host, "files", template), list[str | None]()  # type: ignore[arg-type]
        driver.app.push_screen(form, made.append)
        await driver.until(lambda: driver.app.screen is form and isinstance(driver.app.focused, Input), "the form")
        await driver.pilot.press("a", "tab", "tab", "enter")
        await driver.until(lambda: made, "the end")
        assert made == [None]


async def test_a_long_address_leaves_the_error_and_the_keys_in_sight_and_is_read_with_page_down(run: Run) -> None:
    template = ResourceTemplate(uri_template="file:///{folder}/{file}", name="a file", description="word " * 400)
    async with run(size=(80, 24)) as driver:
        form = ResourceTemplateForm(driver.host, "files", template)  # type: ignore[arg-type]
        driver.app.push_screen(form)
        await driver.until(lambda: driver.app.screen is form and isinstance(driver.app.focused, Input), "the form")
        form.query_one("#value-0", Input).value = "long/" * 300 + "end"
        await driver.until(lambda: "long%2Flong" in driver.text(), "the address")
        await driver.pilot.press("enter", "enter")
        await driver.until(lambda: "file is required." in driver.text(), "the error in sight")
        box = form.query_one("#box").content_region
        for name in ("#description", "#value-1", "#fault", "#buttons", "#keys"):
            assert box.contains_region(form.query_one(name).region), name
        await driver.until(lambda: "page up/down" in driver.text(), "the keys that scroll")
        assert "Fend/" not in driver.text()
        for _step in range(100):
            await driver.pilot.press("pagedown")
        await driver.until(lambda: "Fend/" in driver.text(), "the end of the address")
        assert "file is required." in driver.text()


async def test_a_late_preview_does_not_appear_under_another_entry(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        read, gate = driver.host.features.read_resource, asyncio.Event()

        async def slow(server: str, uri: str) -> Any:
            await gate.wait()
            return await read(server, uri)

        driver.host.features.read_resource = slow
        await driver.pilot.press("f4")
        await driver.until(lambda: "reading" in driver.text(), "the wait")
        await driver.pilot.press("down", "down")
        await driver.until(lambda: "enter fills in the URI" in driver.text(), "the template")
        gate.set()
        await driver.pilot.pause(0.1)
        assert "It reads files." not in driver.text()
        assert '"a"' not in driver.text()


async def test_a_template_is_chosen_in_the_message_filled_in_with_suggestions_and_its_resource_attached(
    run: Run,
) -> None:
    async with run(size=(80, 24)) as driver:
        driver.host.features.suggestions["path"] = ["docs/a.md", "docs/b.md"]
        await driver.type("see @any")
        await driver.until(lambda: any("template file:///{path}" in row for row in driver.popup_rows()), "the template")
        await driver.pilot.press("tab")
        await driver.until(lambda: isinstance(driver.app.screen, ResourceTemplateForm), "the form")
        await driver.type("do")
        await driver.until(lambda: "docs/b.md" in driver.text(), "the suggestions")
        await driver.type("cs/a.md")
        await driver.until(lambda: "file:///docs%2Fa.md" in driver.text(), "the address")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(Composer).attachment_names, "the attachment")
        [part] = driver.app.chat.attachments.parts
        assert isinstance(part, ResourcePart)
        assert (part.server, part.uri) == ("files", "file:///docs%2Fa.md")
        assert driver.app.screen is driver.app.chat
        await driver.type("please")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert driver.host.sent[0] == ("see please", (part,))


async def test_leaving_the_form_of_a_template_attaches_nothing_and_keeps_the_message(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await driver.type("see @any")
        await driver.pilot.press("tab")
        await driver.until(lambda: isinstance(driver.app.screen, ResourceTemplateForm), "the form")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the message")
        composer = driver.app.query_one(Composer)
        assert (composer.composer_input.text, composer.attachment_names) == ("see ", ())
        assert composer.composer_input.has_focus


async def test_resources_and_templates_of_all_servers_are_found_by_the_letters_of_their_names(run: Run) -> None:
    async with run() as driver:
        driver.host.views = (*driver.host.views, sample_server("other"))
        await driver.type("@anfl")
        await driver.until(
            lambda: (
                [row.split()[:3] for row in driver.popup_rows() if "template" in row]
                == [["any", "file", name] for name in ("files", "github", "other")]
            ),
            "the templates",
        )
        await driver.pilot.press(*["backspace"] * 4)
        await driver.type("rdm")
        await driver.until(
            lambda: sum("README.md" in row and "file:///" in row for row in driver.popup_rows()) == 3, "it"
        )


async def test_a_name_with_the_typed_text_comes_before_one_with_only_its_letters(run: Run) -> None:
    async with run() as driver:
        templates = tuple(
            ResourceTemplate(uri_template=f"x:/{number}/{{id}}", name=name)
            for number, name in enumerate(("long old gate", "a log", "log of today"))
        )
        view = driver.host.views[0]
        driver.host.views = (replace(view, catalog=replace(view.catalog, resources=(), templates=templates)),)
        await driver.type("@log")
        wanted = ["log of today", "a log", "long old gate"]
        await driver.until(
            lambda: [row.split("  ")[0] for row in driver.popup_rows() if "x:/" in row] == wanted, "the order"
        )


async def test_templates_are_offered_beside_many_resources_and_files(run: Run) -> None:
    async with run() as driver:
        view = driver.host.views[0]
        many = tuple(replace(view.catalog.resources[0], name=f"note {number}") for number in range(20))
        driver.host.views = (replace(view, catalog=replace(view.catalog, resources=many)),)
        await driver.type("@")
        await driver.until(lambda: "Files" in driver.popup_rows(), "the files")
        assert any("template file:///{path}" in row for row in driver.popup_rows())
