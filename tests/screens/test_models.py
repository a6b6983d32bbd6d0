"""Tests for the models page: search, use now, use and save as default, and entering an API key."""

import re
from typing import Any, Self

import anyio
import pytest
from textual.widgets import TextArea

from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError
from mcphost.llm.model import ModelFacts
from mcphost.llm.model_finder import AvailableModel
from mcphost.serialization import replace
from mcphost.translation import set_language
from mcphost.tui.widgets.composer import Composer
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio

USABLE = AvailableModel(
    config=ModelConfig(name="anthropic/one"), provider="anthropic", provider_title="Anthropic",
    origin="ANTHROPIC_API_KEY is set", key_variable="ANTHROPIC_API_KEY", context_window=200_000, supports_tools=True,
    supports_images=True, input_price=3.0, output_price=15.0,
)  # fmt: skip
LOCAL = AvailableModel(
    config=ModelConfig(name="ollama_chat/two", api_base="http://127.0.0.1:11434"), provider="ollama",
    provider_title="Ollama", origin="Ollama at 127.0.0.1:11434", supports_tools=False,
)  # fmt: skip
KEYLESS = AvailableModel(
    config=ModelConfig(name="xai/three"), provider="xai", provider_title="xAI", key_variable="XAI_API_KEY",
    context_window=2_000_000,
)  # fmt: skip


class FakeModels:
    """A fake setup that lists three models and records which one is selected."""

    is_first_run = False

    def __init__(self) -> None:
        self.used: list[tuple[str, bool]] = []
        self.configs: list[ModelConfig] = []
        self.favorites: set[str] = set()
        self.keys: list[tuple[str, str]] = []
        self.retried: list[str] = []
        self.late: tuple[AvailableModel, ...] = ()
        self.is_late_found = anyio.Event()
        self.key_place = "keyring"
        self.models: tuple[AvailableModel, ...] = (USABLE, LOCAL, KEYLESS)

    async def retry_tools(self, model: ModelConfig) -> None:
        self.retried.append(model.name)

    @property
    def api_keys(self) -> Self:
        return self

    async def list_models(self) -> tuple[AvailableModel, ...]:
        return self.models

    async def find_listed_models(self, known: Any) -> tuple[AvailableModel, ...]:
        return ()

    async def find_late_models(self, known: Any) -> tuple[AvailableModel, ...]:
        await self.is_late_found.wait()
        return self.late

    async def use_model(self, model: ModelConfig, *, is_default: bool) -> str:
        if model.name == "ollama_chat/two" and is_default:
            raise McpHostError("It cannot be saved.", "Write it yourself.")
        self.used.append((model.name, is_default))
        self.configs.append(model)
        return "your default" if is_default else ""

    async def toggle_favorite(self, model: ModelConfig) -> bool:
        self.favorites ^= {model.name}
        return model.name in self.favorites

    async def protect_headers(self, model: ModelConfig) -> ModelConfig:
        if "X-Bad" in model.headers:
            raise McpHostError("There is no keyring.")
        return model

    async def find_missing(self, model: ModelConfig) -> str:
        return model.api_key_env or ("XAI_API_KEY" if model.name.startswith("xai/") else "")

    def find_replaceable(self, model: ModelConfig) -> str:
        return model.api_key_env or ("" if model.api_base else f"{model.name.partition('/')[0].upper()}_API_KEY")

    async def find_place(self) -> str:
        return self.key_place

    async def store(self, key: str, model: ModelConfig) -> None:
        if key == "bad":
            raise McpHostError("There is no keyring.", "Set XAI_API_KEY.")
        self.keys.append((model.name, key))


async def open_page(driver: AppDriver) -> None:
    await driver.pilot.press("ctrl+b")
    await driver.until(lambda: "3 of 3" in driver.text(), "the list")


async def test_a_model_is_found_and_used_from_the_search_line(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(120, 40), setup=setup) as driver:
        await open_page(driver)
        text = driver.text()
        assert "200k context" in text
        assert "$3 in, $15 out" in text
        assert "xAI · needs a key · 2M context" in text
        await driver.pilot.press(*"two", "enter")
        await driver.until(lambda: setup.used, "the use")
        assert setup.used == [("ollama_chat/two", False)]
        await driver.until(lambda: "Using ollama_chat/two from now on." in driver.text(), "the notice")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_list_shows_the_context_and_the_price_of_each_model_completely(
    run: Run, size: tuple[int, int]
) -> None:
    setup = FakeModels()
    free = replace(LOCAL, supports_tools=True, context_window=40_960, input_price=0.0, output_price=0.0)
    dear = replace(
        USABLE, config=ModelConfig(name="openai/dear"), origin="A_VERY_LONG_VARIABLE_NAME_API_KEY is in the keyring",
        context_window=1_050_000, supports_reasoning=True, input_price=0.075, output_price=12.25,
    )  # fmt: skip

    async def list_models() -> tuple[AvailableModel, ...]:
        return dear, free, KEYLESS

    setup.list_models = list_models
    async with run(size=size, setup=setup) as driver:
        await open_page(driver)
        text = driver.text()
    assert "1.05M context · $0.075/$12.25 · tools · images" in text
    assert "41k context · free · tools" in text
    assert "price      $0.075 in, $12.25 out per million tokens" in text


@pytest.mark.parametrize("size", [(80, 24), (100, 30)])
async def test_the_address_that_tells_two_local_servers_apart_is_never_cut(run: Run, size: tuple[int, int]) -> None:
    setup = FakeModels()
    setup.models = tuple(
        replace(
            LOCAL, config=ModelConfig(name="openai/alpha", api_base=f"http://127.0.0.1:{port}/v1"), supports_tools=True,
            supports_images=True, context_window=40_960, input_price=0.0, output_price=0.0,
            provider_title="OpenAI-compatible server", origin=f"OpenAI-compatible server at 127.0.0.1:{port}",
        )
        for port in (18871, 18872)
    )  # fmt: skip
    async with run(size=size, setup=setup) as driver:
        driver.host.model_selection.config = setup.models[0].config
        await driver.pilot.press("ctrl+b")
        await driver.until(lambda: "in use · 127.0.0.1:18871 · 41k" in driver.text(), "the model in use")
        assert "127.0.0.1:18872 · 41k" in driver.text()


async def test_where_a_key_was_found_is_said_in_the_language_of_the_user(run: Run) -> None:
    async with run(size=(120, 40), setup=FakeModels()) as driver:
        set_language("zh-CN")
        try:
            await driver.pilot.press("ctrl+b")
            await driver.until(lambda: "已设置 ANTHROPIC_API_KEY" in driver.text(), "the origin")
            await driver.pilot.press("down")
            await driver.until(lambda: "Ollama，位于 127.0.0.1:11434" in driver.text(), "the details")
        finally:
            set_language("en")


async def test_the_buttons_and_keys_of_the_form_are_visible_in_a_small_terminal(run: Run) -> None:
    async with run(size=(80, 24), setup=FakeModels()) as driver:
        await open_page(driver)
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: "Settings of anthropic/one" in driver.text(), "the form")
        assert "Use now" in driver.text()
        assert "ctrl+s use and save · esc back" in driver.text()


async def test_a_model_whose_provider_refused_tools_is_tried_again_on_request(run: Run) -> None:
    setup = FakeModels()
    refused = replace(LOCAL, tools_refused_at=1_795_000_000.0)

    async def list_models() -> tuple[AvailableModel, ...]:
        return USABLE, refused, KEYLESS

    async with run(size=(120, 40), setup=setup) as driver:
        await open_page(driver)
        assert "ctrl+r" not in driver.text()
        await driver.pilot.press("ctrl+r", "escape")
        await driver.until(lambda: "3 of 3" not in driver.text(), "the chat")
        setup.list_models = list_models
        await open_page(driver)
        assert "ctrl+r retry tools" in driver.text()
        await driver.pilot.press("ctrl+r", "down")
        await driver.until(lambda: "no, refused on 2026-11-1" in driver.text(), "the details")
        assert setup.retried == []
        await driver.pilot.press("ctrl+r")
        notices = driver.app._notifications
        await driver.until(
            lambda: [one.message for one in notices] == ["ollama_chat/two is offered tools again."], "the notice"
        )
        assert setup.retried == ["ollama_chat/two"]
        assert "ctrl+r" not in driver.text()


async def test_what_is_typed_before_the_models_are_listed_is_searched_for(run: Run) -> None:
    setup, listed = FakeModels(), anyio.Event()

    async def list_models() -> tuple[AvailableModel, ...]:
        await listed.wait()
        return USABLE, LOCAL, KEYLESS

    setup.list_models = list_models
    async with run(setup=setup) as driver:
        await driver.pilot.press("ctrl+b")
        await driver.until(lambda: "Searching…" in driver.text(), "the page")
        await driver.type("two")
        listed.set()
        await driver.until(lambda: "1 of 3" in driver.text(), "the match")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.used == [("ollama_chat/two", False)], "the model")


async def test_the_models_of_a_slow_server_are_added_while_the_list_is_open(run: Run) -> None:
    setup = FakeModels()
    setup.late = (replace(LOCAL, config=ModelConfig(name="ollama_chat/late", api_base=LOCAL.config.api_base)),)
    async with run(size=(120, 40), setup=setup) as driver:
        await open_page(driver)
        assert "ollama_chat/late" not in driver.text()
        setup.is_late_found.set()
        await driver.until(lambda: "4 of 4" in driver.text(), "the late model")
        text = driver.text()
        places = [text.index(name) for name in ("ollama_chat/two", "ollama_chat/late", "xai/three")]
        assert places == sorted(places)


async def test_a_model_is_saved_as_the_default_only_on_request(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(120, 40), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: setup.used == [("anthropic/one", True)], "the use")
        await driver.until(lambda: "saved as your default" in driver.text(), "the notice")
        await open_page(driver)
        await driver.pilot.press(*"two", "ctrl+s")
        await driver.until(lambda: "It cannot be saved." in driver.text(), "the error")


async def test_a_missing_key_is_asked_for_without_being_shown(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"three", "enter")
        await driver.until(lambda: "Key for xAI" in driver.text(), "the form")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Paste the key first." in driver.text(), "the refusal")
        await driver.pilot.press(*"bad", "enter")
        await driver.until(lambda: "There is no keyring." in driver.text(), "the error")
        assert "bad" not in driver.text()
        await driver.pilot.press("ctrl+u", *"good", "enter")
        await driver.until(lambda: setup.used, "the use")
        assert setup.keys == [("xai/three", "good")]
        assert setup.used == [("xai/three", False)]


async def test_the_key_of_a_model_is_replaced_on_request(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"one", "ctrl+d")
        await driver.until(lambda: "The key replaces the one in use. It is stored" in driver.text(), "the form")
        await driver.pilot.press(*"new", "enter")
        await driver.until(lambda: setup.used, "the use")
        assert setup.keys == [(USABLE.config.name, "new")]
        assert setup.used == [(USABLE.config.name, False)]


async def test_a_model_at_an_address_of_its_own_has_no_key_that_could_be_replaced(run: Run) -> None:
    setup = FakeModels()
    config = ModelConfig(name="openai/two", api_base="https://proxy.example/v1")
    setup.models = (USABLE, replace(USABLE, config=config, key_variable="OPENAI_API_KEY"), KEYLESS)
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"two", "ctrl+d")
        notices = driver.app._notifications
        text = "openai/two has its own address. Enter the variable of its key in its settings first."
        await driver.until(lambda: [one.message for one in notices] == [text], "the notice")
        assert "Key for" not in driver.text()


async def test_the_address_of_a_model_is_named_when_its_own_key_is_replaced(run: Run) -> None:
    setup = FakeModels()
    config = ModelConfig(name="openai/two", api_base="https://proxy.example/v1", api_key_env="PROXY_KEY")
    setup.models = (USABLE, replace(USABLE, config=config, key_variable="PROXY_KEY"), KEYLESS)
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"two", "ctrl+d")
        await driver.until(lambda: "Key for proxy.example/v1" in driver.text(), "the form")


async def test_a_model_without_a_key_says_that_it_needs_none(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"two", "ctrl+d")
        notices = driver.app._notifications
        await driver.until(lambda: [one.message for one in notices] == ["ollama_chat/two needs no key."], "the notice")


async def test_saving_the_settings_of_a_model_asks_for_its_missing_key_first(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"three", "ctrl+e")
        await driver.until(lambda: "Settings of xai/three" in driver.text(), "the form")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Key for xai" in driver.text(), "the key form")
        await driver.pilot.press("escape")
        await driver.until(lambda: "Settings of xai/three" in driver.text(), "the form again")
        assert setup.used == []
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Key for xai" in driver.text(), "the key form")
        await driver.pilot.press(*"good", "enter")
        await driver.until(lambda: setup.used == [("xai/three", True)], "the use")
        assert setup.keys == [("xai/three", "good")]


async def test_another_model_with_a_key_variable_of_its_own_asks_for_that_key(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press("ctrl+n")
        await driver.until(lambda: "Another model" in driver.text(), "the form")
        assert str(driver.app.screen.query("#buttons Button").first().label) == "Back"
        for words in ("input $ per 1M", "3.00", "4096"):
            assert words in driver.text(), words
        fields = ("openai/x", "https://gateway.example/v1", "GATEWAY_KEY")
        for text in fields:
            await driver.type(text)
            await driver.pilot.press("tab")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Key for gateway.example/v1" in driver.text(), "the key form")
        assert "GATEWAY_KEY" in driver.text()
        await driver.pilot.press(*"good", "enter")
        await driver.until(lambda: setup.used == [("openai/x", True)], "the use")
        assert setup.keys == [("openai/x", "good")]


async def test_text_typed_right_after_tab_goes_into_the_next_field_of_the_form(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press("ctrl+n")
        await driver.until(lambda: "Another model" in driver.text(), "the form")
        driver.press_together(*"openai/owl", "tab", *"http://h/v1", "tab", "tab", *"0.5", "ctrl+s")
        await driver.until(lambda: setup.used, "the use")
        assert setup.configs == [ModelConfig(name="openai/owl", api_base="http://h/v1", temperature=0.5)]


async def test_the_page_opens_by_command_and_by_a_click_on_the_models_name(run: Run) -> None:
    async with run(size=(100, 30), setup=FakeModels()) as driver:
        await driver.type("/model")
        await driver.pilot.press("enter")
        await driver.until(lambda: "3 of 3" in driver.text(), "the list")
        await driver.pilot.press("escape")
        await driver.until(lambda: "3 of 3" not in driver.text(), "the chat")
        await driver.pilot.click("TopBar", offset=(12, 0))
        await driver.until(lambda: "3 of 3" in driver.text(), "the list")


async def test_the_model_stays_while_an_answer_runs(run: Run) -> None:
    setup: Any = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        driver.app.chat.is_sending = True
        await open_page(driver)
        await driver.pilot.press("enter")
        await driver.until(
            lambda: any("Still answering" in notification.message for notification in driver.app._notifications),
            "the hint",
        )
        assert setup.used == []


async def test_parameters_of_a_model_are_edited_and_used(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(80, 24), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: "Settings of anthropic/one" in driver.text(), "the form")
        await driver.pilot.press("enter", "enter", "enter", *"hot", "enter", "ctrl+s")
        await driver.until(lambda: "temperature: 'hot' is not a number" in driver.text(), "the refusal")
        await driver.pilot.press("ctrl+u", *"0.3", "tab", *"0.9", "ctrl+s")
        await driver.until(lambda: setup.used == [("anthropic/one", True)], "the use")
        assert setup.configs == [ModelConfig(name="anthropic/one", temperature=0.3, top_p=0.9)]


async def test_a_model_at_an_own_address_with_headers_is_used_without_saving(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press("ctrl+n")
        await driver.until(lambda: "Another model" in driver.text(), "the form")
        await driver.pilot.press(*"mine", "enter", *"http://127.0.0.1:1/v1")
        driver.app.screen.query_one("#headers", TextArea).text = "X-Team: research\nX-Bad: 1"
        await driver.pilot.click("#use")
        await driver.until(lambda: "There is no keyring." in driver.text(), "the refusal")
        driver.app.screen.query_one("#headers", TextArea).text = "X-Team: research"
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: setup.used == [("openai/mine", True)], "the use")
        assert setup.configs[0].headers == {"X-Team": "research"}
        assert setup.configs[0].api_base == "http://127.0.0.1:1/v1"


async def test_a_favourite_is_marked_in_the_list(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(120, 40), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"two", "ctrl+t")
        await driver.until(lambda: "★ ollama_chat/two" in driver.text(), "the mark")
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "★" not in driver.text(), "no mark")


async def test_arrow_keys_move_in_the_list_while_the_search_line_has_the_focus(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(80, 24), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"context", "down", "up", "down", "enter")
        await driver.until(lambda: "Key for xAI" in driver.text(), "the second of two matches")


@pytest.mark.parametrize("current", [KEYLESS.config, ModelConfig(name="demo", context_window=9_000)])
async def test_the_model_in_use_is_listed_first_and_marked_also_if_it_was_not_found(
    run: Run, current: ModelConfig
) -> None:
    setup = FakeModels()
    async with run(size=(120, 40), setup=setup) as driver:
        driver.host.model_selection.config = current
        await driver.pilot.press("ctrl+b")
        await driver.until(lambda: "anthropic/one" in driver.text(), "the list")
        lines = driver.text().splitlines()
        (first,) = (at for at, line in enumerate(lines) if f"● {current.name}" in line)
        assert first < min(at for at, line in enumerate(lines) if "anthropic/one" in line)
        assert "in use" in lines[first + 1]
        await driver.pilot.press("down", "enter")
        await driver.until(lambda: setup.used == [("anthropic/one", False)], "the use")


@pytest.mark.parametrize("is_found", [True, False])
async def test_what_the_host_knows_about_the_model_in_use_is_shown(run: Run, is_found: bool) -> None:
    setup = FakeModels()
    own = ModelConfig(name="openai/own", api_base="http://127.0.0.1:8000/v1")
    if is_found:
        found = AvailableModel(config=own, provider="openai", provider_title="OpenAI", origin="at 127.0.0.1:8000/v1")
        setup.models = (found, *setup.models)
    async with run(size=(120, 40), setup=setup) as driver:
        driver.host.model_selection.config = own
        driver.host.model_selection.model.facts = ModelFacts(context_window=128_000, supports_tools=True)
        await driver.pilot.press("ctrl+b")
        await driver.until(lambda: "anthropic/one" in driver.text(), "the list")
        assert "128,000 tokens" in driver.text()
        assert re.search(r"\btools +yes\b", driver.text())
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: setup.favorites == {own.name}, "the favorite")


async def test_the_form_for_a_key_says_that_without_a_keyring_the_key_is_not_stored(run: Run) -> None:
    setup = FakeModels()
    setup.key_place = "session"
    async with run(size=(100, 30), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press(*"three", "enter")
        await driver.until(lambda: "It is kept until mcphost quits" in driver.text(), "the place")
        assert "stored in the keyring" not in driver.text()


@pytest.mark.parametrize("typed", ["claude opus 4.5", "claude-opus-4.5", "Claude_Opus 4-5", "opus 4 5"])
async def test_dots_hyphens_underscores_and_blanks_are_alike_in_a_search_for_a_model(run: Run, typed: str) -> None:
    setup = FakeModels()
    opus = replace(USABLE, config=ModelConfig(name="anthropic/claude-opus-4-5"))
    setup.models = (USABLE, LOCAL, opus)
    async with run(size=(120, 40), setup=setup) as driver:
        await open_page(driver)
        await driver.type(typed)
        await driver.until(lambda: "1 of 3" in driver.text(), "the match")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.used == [("anthropic/claude-opus-4-5", False)], "the use")


async def test_dots_and_blanks_in_a_model_name_after_the_command_are_alike(run: Run) -> None:
    setup = FakeModels()
    opus = replace(USABLE, config=ModelConfig(name="anthropic/claude-opus-4-5"))
    setup.models = (USABLE, LOCAL, opus)
    async with run(size=(120, 40), setup=setup) as driver:
        await driver.type("/model claude opus 4.5")
        await driver.until(lambda: "anthropic/claude-opus-4-5" in driver.text(), "the completion")
        composer = driver.app.chat.query_one(Composer)
        composer.popup.close()
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.used == [("anthropic/claude-opus-4-5", False)], "the use")


@pytest.mark.parametrize("name", ["ollama_chat/two", "two", "OLLAMA_CHAT/Two"])
async def test_a_model_is_chosen_by_its_name_after_the_command(run: Run, name: str) -> None:
    setup = FakeModels()
    async with run(setup=setup) as driver:
        driver.app.chat.query_one(Composer).set_text(f"/model {name}", "typed")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.used == [("ollama_chat/two", False)], "the use")
        await driver.until(lambda: "Using ollama_chat/two from now on." in driver.text(), "the notice")


async def test_enter_after_the_short_name_of_a_model_runs_the_command(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(120, 40), setup=setup) as driver:
        await driver.type("/model two")
        await driver.until(lambda: "ollama_chat/two" in driver.text(), "the completion")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.used == [("ollama_chat/two", False)], "the use")


async def test_an_unknown_model_after_the_command_is_refused_with_similar_names_and_keeps_the_text(run: Run) -> None:
    setup = FakeModels()
    setup.is_late_found.set()
    async with run(setup=setup) as driver:
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("/model antropic/one", "typed")
        await driver.pilot.press("enter")
        await driver.until(
            lambda: driver.has_notified('The list has no model "antropic/one". Similar: anthropic/one.'), "the error"
        )
        await driver.until(lambda: composer.composer_input.text == "/model antropic/one", "the text")
        assert composer.draft.origin == "typed"
        assert setup.used == []


async def test_a_message_sent_while_a_model_is_searched_for_waits_for_that_model(run: Run) -> None:
    setup = FakeModels()
    setup.late = (replace(USABLE, config=ModelConfig(name="anthropic/late")),)
    async with run(setup=setup) as driver:
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("/model anthropic/late", "typed")
        await driver.pilot.press("enter")
        await driver.type("for the late model")
        await driver.pilot.press("enter")
        await driver.until(lambda: "» for the late model" in driver.text(), "the message in the queue")
        assert driver.has_notified("The message is sent as soon as the model is switched.")
        assert (driver.host.sent, setup.used) == ([], [])
        setup.is_late_found.set()
        await driver.until(lambda: driver.host.sent, "the message")
        assert setup.used == [("anthropic/late", False)]
        assert driver.host.sent[0][0] == "for the late model"


async def test_a_message_for_a_model_that_is_not_found_goes_back_to_the_composer(run: Run) -> None:
    setup = FakeModels()
    async with run(setup=setup) as driver:
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("/model anthropic/late", "typed")
        await driver.pilot.press("enter")
        await driver.type("for the late model")
        await driver.pilot.press("enter")
        await driver.until(lambda: "» for the late model" in driver.text(), "the message in the queue")
        setup.is_late_found.set()
        await driver.until(lambda: composer.composer_input.text, "the text")
        assert composer.composer_input.text == "for the late model"
        assert (driver.host.sent, setup.used) == ([], [])


async def test_messages_after_a_switch_that_a_turn_refused_are_not_sent_to_the_old_model_by_themselves(
    run: Run,
) -> None:
    setup = FakeModels()
    setup.late = (replace(USABLE, config=ModelConfig(name="anthropic/late")),)
    is_answered = anyio.Event()

    async def answer_late(host: Any, turn: int, text: str) -> str:
        if turn == 1:
            await is_answered.wait()
        return "done"

    async with run(setup=setup, turn=answer_late) as driver:
        text = driver.app.chat.composer_input
        for message in ("for the old model", "also for the old model"):
            await driver.type(message)
            await driver.pilot.press("enter")
            await driver.until(lambda: driver.host.sent, "the first message")
        driver.app.chat.query_one(Composer).set_text("/model anthropic/late", "typed")
        await driver.pilot.press("enter")
        await driver.type("for the late model")
        await driver.pilot.press("enter")
        await driver.until(lambda: "» for the late model" in driver.text(), "the message in the queue")
        setup.is_late_found.set()
        await driver.until(lambda: driver.has_notified("Still answering"), "the refusal")
        await driver.until(lambda: text.text == "for the late model", "the text in the composer")
        assert "» also for the old model" in driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.has_notified("Press Enter again to send"), "the question")
        assert text.text == "for the late model"
        is_answered.set()
        await driver.until(lambda: not driver.app.chat.is_turn_active and len(driver.host.sent) == 2, "the turn's end")
        assert text.text == "for the late model"
        await driver.pilot.press("enter")
        await driver.until(lambda: len(driver.host.sent) == 3, "the message")
        assert [sent for sent, _ in driver.host.sent][2] == "for the late model"


async def test_a_message_for_another_model_is_not_sent_when_a_turn_of_the_old_one_ends(run: Run) -> None:
    setup = FakeModels()
    setup.late = (replace(USABLE, config=ModelConfig(name="anthropic/late")),)
    is_answered = anyio.Event()

    async def answer_late(host: Any, turn: int, text: str) -> str:
        if turn == 1:
            await is_answered.wait()
        return "done"

    async with run(setup=setup, turn=answer_late) as driver:
        await driver.type("for the old model")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent, "the first message")
        driver.app.chat.query_one(Composer).set_text("/model anthropic/late", "typed")
        await driver.pilot.press("enter")
        await driver.type("for the late model")
        await driver.pilot.press("enter")
        await driver.until(lambda: "» for the late model" in driver.text(), "the message in the queue")
        is_answered.set()
        await driver.until(lambda: not driver.app.chat.is_turn_active, "the end of the turn")
        await driver.pilot.pause()
        assert len(driver.host.sent) == 1
        setup.is_late_found.set()
        await driver.until(lambda: len(driver.host.sent) == 2, "the message")
        assert setup.used == [("anthropic/late", False)]


async def test_what_is_typed_after_a_refused_command_replaces_it(run: Run) -> None:
    setup = FakeModels()
    setup.is_late_found.set()
    async with run(setup=setup) as driver:
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("/model antropic/one", "typed")
        await driver.pilot.press("enter")
        await driver.until(lambda: composer.composer_input.text == "/model antropic/one", "the text")
        await driver.type("hello")
        assert composer.composer_input.text == "hello"


async def test_a_model_without_a_key_after_the_command_asks_for_the_key(run: Run) -> None:
    setup = FakeModels()
    async with run(setup=setup) as driver:
        driver.app.chat.query_one(Composer).set_text("/model xai/three", "typed")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Key for xAI" in driver.text(), "the form")
        assert setup.used == []


async def test_the_names_of_models_are_completed_after_the_command(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(120, 40), setup=setup) as driver:
        await driver.type("/model ol")
        await driver.until(lambda: "ollama_chat/two" in driver.text(), "the completion")
        await driver.pilot.press("tab", "enter")
        await driver.until(lambda: setup.used == [("ollama_chat/two", False)], "the use")


BARE = AvailableModel(
    config=ModelConfig(name="alpha-small", api_base="http://127.0.0.1:18771/v1"), provider="", provider_title="",
    origin="at 127.0.0.1:18771/v1",
)  # fmt: skip


async def test_a_model_saved_without_a_provider_is_found_by_the_name_that_the_screen_shows(run: Run) -> None:
    setup = FakeModels()
    setup.models = (*setup.models, BARE)
    async with run(size=(120, 40), setup=setup) as driver:
        driver.app.screen.query_one(Composer).set_text("/model openai/alpha-small", "typed")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.used, "the use")
        assert setup.used == [("alpha-small", False)]


async def test_a_model_saved_without_a_provider_is_listed_once_while_it_is_in_use(run: Run) -> None:
    setup = FakeModels()
    setup.models = (*setup.models, BARE)
    async with run(size=(120, 40), setup=setup) as driver:
        driver.host.model_selection.config = BARE.config
        await driver.pilot.press("ctrl+b")
        await driver.until(lambda: "of 4" in driver.text(), "the list")
        assert "4 of 4" in driver.text()


async def test_a_new_model_at_an_address_is_saved_with_its_provider(run: Run) -> None:
    setup = FakeModels()
    async with run(size=(120, 40), setup=setup) as driver:
        await open_page(driver)
        await driver.pilot.press("ctrl+n")
        await driver.until(lambda: "Another model" in driver.text(), "the form")
        await driver.pilot.press(*"alpha", "tab", *"http://127.0.0.1:1/v1", "ctrl+s")
        await driver.until(lambda: setup.configs, "the use")
        assert setup.configs[0].name == "openai/alpha"
