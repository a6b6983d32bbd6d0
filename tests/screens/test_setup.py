"""Tests for the card shown at the first start: it needs only two keys, but accepts none by accident."""

from typing import Any, Self

import anyio
import pytest
from textual import events
from textual.widgets import Input, OptionList

from mcphost.config.other_host_entries import ForeignServer
from mcphost.config.schema import ModelConfig, ServerConfig
from mcphost.errors import UsageError
from mcphost.host.questions.questions import ContinueTurn
from mcphost.host.servers.import_plan import ImportCandidate
from mcphost.host.setup import SetupOffers, SetupResult
from mcphost.llm.model_finder import AvailableModel
from mcphost.serialization import replace
from mcphost.tui.screens.setup import SetupScreen
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio

MODELS = (
    AvailableModel(
        config=ModelConfig(name="anthropic/one"), provider="anthropic", provider_title="Anthropic",
        origin="ANTHROPIC_API_KEY is set", supports_tools=True,
    ),
    AvailableModel(
        config=ModelConfig(name="ollama_chat/two"), provider="ollama", provider_title="Ollama",
        origin="Ollama at 127.0.0.1:11434", supports_tools=False,
    ),
)  # fmt: skip


def candidate(name: str, *arguments: str, state: Any = "new") -> ImportCandidate:
    server = ServerConfig(name=name, command="run", args=arguments)
    found = ForeignServer(name=name, host="Claude Code", file="/f", entry={"command": "run", "args": list(arguments)})
    return ImportCandidate(found=found, hosts=("Claude Code",), state=state, name=name, server=server)


SERVERS = (candidate("time", "x"), candidate("long", "y" * 200), candidate("known", "z", state="configured"))


class FakeSetup:
    """A fake setup that offers prepared models and servers, and records what the user applies."""

    def __init__(self, offers: SetupOffers | None = None, *, is_first_run: bool = True) -> None:
        self.offers = SetupOffers(MODELS, SERVERS) if offers is None else offers
        self.is_first_run = is_first_run
        self.applied: list[tuple[Any, list[str], set[str]]] = []
        self.releases = 0
        self.keys: list[tuple[str, str]] = []
        self.is_found = anyio.Event()
        self.is_found.set()
        self.late: tuple[AvailableModel, ...] = ()
        self.is_late_found = anyio.Event()
        self.key_place = "keyring"

    @property
    def api_keys(self) -> Self:
        return self

    async def list_models(self) -> tuple[AvailableModel, ...]:
        return MODELS

    async def find_listed_models(self, known: Any) -> tuple[AvailableModel, ...]:
        return ()

    async def find_late_models(self, known: Any) -> tuple[AvailableModel, ...]:
        await self.is_late_found.wait()
        return self.late

    def mark_shown(self) -> None:
        self.is_first_run = False

    async def find(self) -> SetupOffers:
        await self.is_found.wait()
        return self.offers

    async def apply(self, model: Any, servers: Any, seen: Any) -> SetupResult:
        names = [one.name for one in servers]
        self.applied.append((model and model.name, names, set(seen)))
        return SetupResult(model.name if model else "", tuple(names), ("one problem",))

    async def release_models(self) -> None:
        self.releases += 1

    async def find_place(self) -> str:
        return self.key_place

    def recognize_provider(self, key: str) -> str:
        return "anthropic" if key in ("good", "bad") else ""

    async def store_for_provider(self, key: str, provider: str) -> AvailableModel | None:
        if key == "bad":
            raise UsageError("Anthropic rejects this key; it was not stored.", "Copy it again.")
        self.keys.append((provider, key))
        return None if provider == "openrouter" else MODELS[0]


def first_run(setup: FakeSetup) -> dict[str, Any]:
    return {"no_model": True, "no_servers": True, "setup": setup}


async def card(driver: AppDriver) -> None:
    await driver.until(lambda: "Set up mcphost" in driver.text(), "the card")


async def test_a_program_without_set_up_mentions_it_only_if_it_is_asked_for(run: Run) -> None:
    async with run(size=(80, 24), no_model=True) as driver:
        assert not driver.has_notified("The demo needs no set-up.")
        await driver.type("/setup")
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: driver.has_notified("The demo needs no set-up."), "the notice")


async def test_a_narrow_card_shows_that_a_model_uses_no_tools(run: Run) -> None:
    local = replace(MODELS[1], config=ModelConfig(name="ollama_chat/a-model-with-a-long-name:8b"))
    async with run(size=(80, 24), **first_run(FakeSetup(SetupOffers((MODELS[0], local))))) as driver:
        await card(driver)
        assert "a-model-with-a-long-name:8b" in driver.text()
        assert "uses no tools" in driver.text()


async def test_two_keys_take_the_best_model_and_every_server(run: Run) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        text = driver.text()
        assert "● anthropic/one" in text
        assert "uses no tools" in text
        assert "□ time" in text
        assert "known" not in text
        await driver.pilot.press("ctrl+a", "enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.applied == [("anthropic/one", ["time", "long"], {"time"})]
        await driver.until(lambda: "Using anthropic/one." in driver.text(), "the notice")
        assert "one problem" in driver.text()


def secretive(name: str, *, is_disabled: bool = False) -> ImportCandidate:
    found = candidate(name, "--a-long-option", "z" * 40)
    return replace(
        found, secrets=("env.API_KEY",), found=replace(found.found, is_disabled=is_disabled),
    )  # fmt: skip


async def test_a_narrow_card_says_which_secrets_go_to_the_keyring_whatever_the_name(run: Run) -> None:
    servers = (secretive("github"), secretive("a-server-with-quite-a-long-name-for-a-card", is_disabled=True))
    async with run(size=(80, 24), **first_run(FakeSetup(SetupOffers(MODELS, servers)))) as driver:
        await card(driver)
        rows = [line for line in driver.text().splitlines() if "□" in line]
        assert all("secrets stored apart" in row for row in rows)
        assert all("Claude Code" in row for row in rows), "the host is not cut off"
        assert ["disabled there" in row for row in rows] == [False, True]
        await driver.pilot.press("tab", "tab")
        await driver.until(lambda: "its secrets are stored apart: env.API_KEY" in driver.text(), "the details")


async def test_a_card_says_that_a_server_whose_row_is_cut_off_asks_for_approval_later(run: Run) -> None:
    for servers, is_cut in (((candidate("time", "x"),), False), (SERVERS, True)):
        async with run(size=(80, 24), **first_run(FakeSetup(SetupOffers(MODELS, servers)))) as driver:
            await card(driver)
            assert ("rows cut off by “…” are asked about later" in driver.text()) == is_cut


async def test_a_server_that_is_disabled_there_is_ticked_only_by_hand(run: Run) -> None:
    setup = FakeSetup(SetupOffers(MODELS, (secretive("off", is_disabled=True), candidate("time", "x"))))
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("ctrl+a")
        await driver.until(lambda: "■ time" in driver.text(), "the tick")
        assert "□ off" in driver.text()
        await driver.pilot.press("home", "space")
        await driver.until(lambda: "■ off" in driver.text(), "the tick of a disabled server")
        await driver.pilot.press("ctrl+a", "ctrl+a")
        await driver.until(lambda: "■ time" in driver.text(), "the tick")
        assert "□ off" in driver.text()


@pytest.mark.parametrize("size", [(80, 24), (60, 24)])
async def test_a_card_with_many_servers_shows_the_keys_before_it_is_entered(run: Run, size: tuple[int, int]) -> None:
    servers = tuple(candidate(f"server-{number}", "x") for number in range(11))
    async with run(size=size, **first_run(FakeSetup(SetupOffers(MODELS, servers)))) as driver:
        await card(driver)
        await driver.until(lambda: "message" in driver.text(), "the end of the keys")
        await driver.pilot.press("tab", "tab", "down")
        await driver.until(lambda: "esc skip" in driver.text(), "the keys of the list")


async def test_a_card_names_the_files_of_other_hosts_in_this_folder(run: Run) -> None:
    offers = SetupOffers(MODELS, SERVERS, ((".vscode/mcp.json", "vscode"),))
    async with run(size=(80, 24), **first_run(FakeSetup(offers))) as driver:
        await card(driver)
        assert "Also in this folder: .vscode/mcp.json (mcphost servers import vscode)" in driver.text()
        assert "message" in driver.text()


async def test_a_command_is_read_only_if_the_card_has_shown_all_of_it(run: Run) -> None:
    setup = FakeSetup(SetupOffers(MODELS, (candidate("long", "y" * 900),)))
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab", "tab", "space")
        await driver.until(lambda: "■ long" in driver.text(), "the tick")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.applied == [("anthropic/one", ["long"], set())]


@pytest.mark.parametrize("others", [0, 11])
async def test_a_narrow_card_shows_the_whole_command_of_a_server_whose_secrets_are_moved(run: Run, others: int) -> None:
    options = [f"--option-{number:02}=value" for number in range(12)]
    secret = replace(candidate("github", *options), secrets=("env.API_KEY", "env.OTHER_API_KEY"))
    servers = (secret, *(candidate(f"server-{number}", "x") for number in range(others)))
    setup = FakeSetup(SetupOffers(MODELS, servers))
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab", "tab")
        await driver.until(lambda: all(option in driver.text() for option in options), "the whole command")
        assert "esc skip" in driver.text()
        await driver.pilot.press("space", "enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert "github" in setup.applied[0][2]


async def test_a_command_that_is_wider_than_the_box_is_not_taken_as_read(run: Run) -> None:
    setup = FakeSetup(SetupOffers(MODELS, (candidate("time", "x"), candidate("wide", "y" * 120))))
    async with run(size=(160, 24), **first_run(setup)) as driver:
        await card(driver)
        assert "y" * 120 not in driver.text()
        await driver.pilot.press("ctrl+a", "enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.applied == [("anthropic/one", ["time", "wide"], {"time"})]


async def test_servers_below_the_visible_part_of_the_list_are_not_taken_as_read(run: Run) -> None:
    servers = tuple(candidate(f"server-{number:02}", "x") for number in range(20))
    setup = FakeSetup(SetupOffers(MODELS, servers))
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        shown = {one.name for one in servers if one.name in driver.text()}
        assert 0 < len(shown) < 20
        await driver.pilot.press("ctrl+a")
        await driver.until(lambda: "■ server-00" in driver.text(), "the ticks")
        shown |= {one.name for one in servers if one.name in driver.text()}
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.applied == [("anthropic/one", [one.name for one in servers], shown)]


async def test_servers_that_were_scrolled_into_view_are_taken_as_read(run: Run) -> None:
    servers = tuple(candidate(f"server-{number:02}", "x") for number in range(20))
    setup = FakeSetup(SetupOffers(MODELS, servers))
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("ctrl+a", "end")
        await driver.until(lambda: "■ server-19" in driver.text(), "the end of the list")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the choice")
        seen = setup.applied[0][2]
        assert {"server-00", "server-18", "server-19"} <= seen
        assert "server-10" not in seen


@pytest.mark.parametrize(("height", "seen"), [(24, {"wide"}), (10, set[str]())])
async def test_a_command_counts_as_read_once_the_details_show_all_of_it(run: Run, height: int, seen: set[str]) -> None:
    setup = FakeSetup(SetupOffers(MODELS, (candidate("wide", *["y" * 9] * 10),)))
    async with run(size=(80, height), **first_run(setup)) as driver:
        await driver.until(lambda: type(driver.app.screen).__name__ == "SetupScreen", "the card")
        await driver.pilot.press("ctrl+a")
        await driver.until(lambda: driver.app.screen.query_one("#target").size.height == 2, "the details")
        driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.applied == [("anthropic/one", ["wide"], seen)]


async def test_enter_counts_once_the_card_is_drawn_even_if_the_first_refresh_is_reported_late(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = FakeSetup()
    refreshed = SetupScreen.call_after_refresh

    def report_never(screen: SetupScreen, callback: Any, *args: Any, **kwargs: Any) -> bool:
        late = callback == screen.mark_shown
        return True if late else refreshed(screen, callback, *args, **kwargs)

    monkeypatch.setattr(SetupScreen, "call_after_refresh", report_never)
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("ctrl+a", "enter")
        await driver.until(lambda: setup.applied, "the choice")


async def test_skipping_the_card_releases_the_model_that_was_loaded_in_advance_and_starting_does_not(run: Run) -> None:
    skipped, started = FakeSetup(), FakeSetup()
    async with run(size=(80, 24), **first_run(skipped)) as driver:
        await card(driver)
        await driver.pilot.press("escape")
        await driver.until(lambda: skipped.releases, "the release")
    async with run(size=(80, 24), **first_run(started)) as driver:
        await card(driver)
        await driver.pilot.press("ctrl+a", "enter")
        await driver.until(lambda: started.applied, "the choice")
        assert started.applied[0][0]
        assert started.releases == 0


@pytest.mark.parametrize("key", ["enter", "escape"])
async def test_without_entering_the_card_nothing_is_chosen(run: Run, key: str) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press(key)
        await driver.pilot.press("escape")
        await driver.until(lambda: "Choose a model to start chatting." in driver.text(), "the chat")
        assert "Set up mcphost" not in driver.text()
        assert setup.applied == []


LATE = AvailableModel(
    config=ModelConfig(name="lm_studio/late", api_base="http://127.0.0.1:1234/v1"), provider="lm_studio",
    provider_title="LM Studio", origin="LM Studio at 127.0.0.1:1234",
)  # fmt: skip


@pytest.mark.parametrize("cursor", [0, 1, 2])
async def test_a_model_server_that_responds_late_is_added_without_a_change_of_choice_or_focus(
    run: Run, cursor: int
) -> None:
    setup = FakeSetup()
    setup.late = (LATE,)
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab", *["down"] * cursor, "space")
        models = driver.app.screen.query_one("#models", OptionList)
        chosen = ("● anthropic/one", "● ollama_chat/two", "● No model for now")[cursor]
        await driver.until(lambda: chosen in driver.text(), "the choice")
        setup.is_late_found.set()
        await driver.until(lambda: "○ lm_studio/late" in driver.text(), "the late model")
        assert chosen in driver.text()
        assert driver.app.screen.focused is models
        assert models.highlighted == (0, 1, 3)[cursor]
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied or "Choose a model" in driver.text(), "the end")
        assert [choice[0] for choice in setup.applied] == [["anthropic/one"], ["ollama_chat/two"], []][cursor]


async def test_a_late_model_comes_above_the_field_for_a_key_and_only_the_user_chooses_it(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    setup.late = (LATE,)
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab")
        field = driver.app.screen.query_one("#key", Input)
        await driver.until(lambda: driver.app.screen.focused is field, "the field")
        setup.is_late_found.set()
        await driver.until(lambda: "○ lm_studio/late" in driver.text(), "the late model")
        assert "● No model for now" in driver.text()
        assert "Found on this machine" in driver.text()
        assert driver.app.screen.focused is field
        await driver.pilot.press("shift+tab", "home", "space")
        await driver.until(lambda: "● lm_studio/late" in driver.text(), "the choice")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the end")
        assert setup.applied == [("lm_studio/late", [], set())]


async def test_a_key_is_pasted_although_a_late_model_was_found(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    setup.late = (LATE,)
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        setup.is_late_found.set()
        await driver.until(lambda: "○ lm_studio/late" in driver.text(), "the late model")
        driver.app.screen.post_message(events.Paste("good"))
        await driver.until(lambda: driver.app.screen.query_one("#key", Input).value == "good", "the key")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.keys == [("anthropic", "good")], "the key")


async def test_enter_pressed_twice_takes_the_best_model_and_no_server(run: Run) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "enter start" in driver.text(), "the keys")
        assert setup.applied == []
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert [choice[:2] for choice in setup.applied] == [("anthropic/one", [])]


async def test_enter_that_is_held_down_chooses_nothing(run: Run, clock: ManualClock) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        for _ in range(20):
            await driver.pilot.press("enter")
            clock.now += 0.03
        assert setup.applied == []
        clock.now += 0.5
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the choice")


async def test_a_server_that_is_configured_already_does_not_keep_the_card_away(run: Run) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), no_model=True, setup=setup) as driver:
        await card(driver)
        assert "Choose a model to start chatting." not in driver.transcript()


async def test_the_card_opens_after_a_question_that_came_first(run: Run) -> None:
    setup = FakeSetup()
    setup.is_found = anyio.Event()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        question = PendingQuestion(driver, ContinueTurn(server="", why="w", rounds=25))
        await driver.until(lambda: "Continue?" in driver.text(), "the question")
        setup.is_found.set()
        await driver.until(lambda: "Choose a model to start chatting." in driver.transcript(), "the notice")
        assert "Set up mcphost" not in driver.text()
        await driver.until(lambda: setup.releases, "the release")
        await driver.enter_question()
        await driver.pilot.press("escape")
        await card(driver)
        assert question.answer is not None


async def test_typing_closes_the_card_and_no_letter_is_lost(run: Run) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        driver.press_together(*"hello there")
        await driver.until(lambda: driver.app.chat.composer_input.text == "hello there", "the message")
        assert setup.applied == []
        assert "Set up mcphost" not in driver.text()


async def test_one_model_and_one_server_are_chosen_by_arrows_and_space(run: Run) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab", "down", "space")
        await driver.until(lambda: "● ollama_chat/two" in driver.text(), "the model")
        await driver.pilot.press("tab", "down", "space")
        await driver.until(lambda: "■ long" in driver.text(), "the tick")
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.applied, "the choice")
        # The end of "long" was in the details.
        assert setup.applied == [("ollama_chat/two", ["long"], {"time", "long"})]


@pytest.mark.parametrize("has_models", [True, False])
async def test_the_card_leads_to_the_form_for_an_address_of_ones_own(run: Run, has_models: bool) -> None:
    setup = FakeSetup()
    if not has_models:
        setup.offers = replace(setup.offers, models=())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab")
        driver.app.screen.query_one("#models").focus()
        await driver.pilot.press("end", "space")
        await driver.until(lambda: "● Another address" in driver.text(), "the choice")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Another model" in driver.text(), "the form")
        await driver.pilot.press("escape")
        await driver.until(lambda: "Choose a model to start chatting" in driver.transcript(), "the notice")
        assert "an address of your own" in " ".join(driver.transcript().split())


@pytest.mark.parametrize(
    ("keys", "models"), [("home", ["anthropic/one"]), ("down", ["ollama_chat/two"]), ("end up", [])]
)
async def test_enter_in_the_list_of_models_starts_with_the_one_under_the_cursor(
    run: Run, keys: str, models: list[str]
) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab", *keys.split(), "enter")
        await driver.until(lambda: setup.applied or "Choose a model" in driver.transcript(), "the end")
        assert [choice[0] for choice in setup.applied] == models


async def test_without_models_the_arrows_and_enter_lead_to_the_form_for_an_address(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab", "shift+tab")
        await driver.until(lambda: "↑↓ space choose · tab · enter start" in driver.text(), "the keys of the list")
        await driver.pilot.press("end", "enter")
        await driver.until(lambda: "Another model" in driver.text(), "the form")


async def test_enter_chooses_no_late_model_that_the_cursor_was_not_moved_to(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    setup.late = (LATE,)
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab")
        setup.is_late_found.set()
        await driver.until(lambda: "○ lm_studio/late" in driver.text(), "the late model")
        await driver.pilot.press("shift+tab", "enter")
        await driver.until(lambda: "Choose a model" in driver.transcript(), "the end")
        assert setup.applied == []


async def test_an_address_in_the_field_for_a_key_is_not_taken_as_a_key(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.pilot.press("tab")
        await driver.until(lambda: driver.app.screen.focused is not None, "the focus")
        await driver.pilot.press(*"http://127.0.0.1:8080/v1", "enter")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.until(lambda: "http://127.0.0.1:8080/v1" in driver.text(), "the address in the message")
        assert setup.keys == []


async def test_up_moves_from_the_field_for_a_key_to_the_list_of_models(run: Run) -> None:
    async with run(size=(80, 24), **first_run(FakeSetup(SetupOffers()))) as driver:
        await card(driver)
        await driver.pilot.press("tab")
        page = driver.app.screen
        await driver.until(lambda: page.focused is not None and page.focused.id == "key", "the field")
        await driver.pilot.press("up")
        await driver.until(lambda: page.focused is not None and page.focused.id == "models", "the list")


async def test_an_address_written_as_a_message_is_offered_as_the_address_of_a_model(run: Run) -> None:
    setup = FakeSetup(is_first_run=False)
    async with run(size=(80, 24), no_model=True, setup=setup) as driver:
        await driver.type("http://10.0.0.7:8123/v1")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Another model" in driver.text(), "the form")
        assert driver.app.screen.query_one("#api_base", Input).value == "http://10.0.0.7:8123/v1"
        assert driver.host.sent == []
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.chat.composer_input.text == "http://10.0.0.7:8123/v1", "the text")


async def test_the_card_opens_automatically_only_once_and_never_over_a_message(run: Run) -> None:
    setup = FakeSetup(is_first_run=False)
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await driver.pilot.pause()
        assert "Set up mcphost" not in driver.text()
        await driver.type("/setup")
        await driver.pilot.press("enter")
        await card(driver)
        await driver.pilot.press("escape")
        await driver.until(lambda: "Set up mcphost" not in driver.text(), "the chat")
    async with run(size=(80, 24), setup=FakeSetup()) as driver:
        await driver.pilot.pause()
        assert "Set up mcphost" not in driver.text()


async def test_a_card_that_was_asked_for_is_entered_at_once(run: Run) -> None:
    setup = FakeSetup()
    async with run(size=(80, 24), setup=setup) as driver:
        await driver.type("/setup")
        await driver.pilot.press("enter")
        await card(driver)
        await driver.pilot.press("tab", "space", "enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.applied[0][1] == ["time"]


async def test_a_pasted_key_is_stored_and_its_model_used(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        driver.app.screen.post_message(events.Paste("bad"))
        await driver.until(lambda: "•••" in driver.text(), "the field")
        assert "bad" not in driver.text()
        await driver.pilot.press("enter")
        await driver.until(lambda: "rejects this key" in driver.text(), "the error")
        await driver.pilot.press("ctrl+u", *"good", "enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.keys == [("anthropic", "good")]
        assert setup.applied == [("anthropic/one", [], set())]


async def test_enter_right_after_a_paste_stores_the_key(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        driver.app.screen.post_message(events.Paste("good"))
        driver.press_together("enter")
        await driver.until(lambda: setup.keys == [("anthropic", "good")], "the key")


KEY = "sk-ant-api03-abcdefghij0123456789"


@pytest.mark.parametrize("key", [KEY, "q3Zr7Tn1LkV0pWx9Bd5Hm2Ys8Jc4Fg6A"])
async def test_a_key_that_arrives_as_typed_text_goes_to_its_input_and_not_to_the_message(run: Run, key: str) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        driver.press_together(*key)
        await driver.until(lambda: "•" * len(key) in driver.text(), "the masked key")
        assert driver.app.chat.composer_input.text == ""
        assert driver.app.screen.query_one("#key", Input).value == key
        await driver.pilot.press("enter", "enter")  # the first may come too soon after the text
        await driver.until(lambda: "Choose it with ↓" in driver.text(), "the providers")
        assert "Set up mcphost" in driver.text()


async def test_a_key_that_is_typed_letter_by_letter_goes_to_the_key_input(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        await driver.type(KEY)
        await driver.until(lambda: "•" * len(KEY) in driver.text(), "the masked key")
        await driver.pilot.press("backspace")
        await driver.until(lambda: driver.app.screen.query_one("#key", Input).value == KEY[:-1], "the shorter key")


async def test_enter_at_the_end_of_a_pasted_key_is_not_the_answer(run: Run, clock: ManualClock) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        driver.press_together(*KEY, "enter")
        await driver.until(lambda: "•" * len(KEY) in driver.text(), "the masked key")
        await driver.pilot.pause()
        assert "Choose it with ↓" not in driver.text()
        assert driver.app.chat.composer_input.text == ""
        clock.now += 1
        await driver.pilot.press("enter")
        await driver.until(lambda: "Choose it with ↓" in driver.text(), "the providers")


@pytest.mark.parametrize("text", ["so, what now?", "skip it", "gs", "sk-ant is a prefix", "AI"])
async def test_a_message_that_begins_like_a_key_goes_to_the_composer(run: Run, text: str) -> None:
    async with run(size=(80, 24), **first_run(FakeSetup(SetupOffers()))) as driver:
        await card(driver)
        for char in text:
            driver.press_together(char)
            await driver.pilot.pause()
        if "Set up mcphost" in driver.text():
            await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.chat.composer_input.text == text, "the message")


async def test_a_key_entered_as_a_message_is_masked_and_offered_for_storing_instead_of_sent(run: Run) -> None:
    setup = FakeSetup(is_first_run=False)
    async with run(size=(80, 24), setup=setup) as driver:
        driver.app.post_message(events.Paste(f"  {KEY}"))
        await driver.until(lambda: KEY in driver.app.chat.composer_input.text, "the message")
        while "Set up mcphost" not in driver.text():
            await driver.pilot.press("enter")
            await driver.pilot.pause()
        assert driver.app.chat.composer_input.text == ""
        assert KEY not in driver.text()
        assert "•" * len(KEY) in driver.text()
        assert driver.host.sent == []
        driver.app.screen.query_one("#key", Input).value = "good"
        await driver.pilot.press("enter")
        await driver.until(lambda: setup.keys == [("anthropic", "good")], "the key")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_key_that_does_not_show_its_provider_is_stored_for_the_one_that_is_chosen(
    run: Run, size: tuple[int, int]
) -> None:
    setup = FakeSetup(SetupOffers((), SERVERS))
    async with run(size=size, **first_run(setup)) as driver:
        await card(driver)
        driver.app.screen.post_message(events.Paste("sk-shared"))
        await driver.until(lambda: "•••" in driver.text(), "the field")
        for _ in range(2):  # nothing is preselected
            await driver.pilot.press("enter")
            await driver.until(lambda: "Choose it with ↓" in driver.text(), "the providers")
        assert "Anthropic" in driver.text()
        assert "Skip" in driver.text()
        assert setup.keys == []
        await driver.pilot.press("down", "down", "enter")
        await driver.until(lambda: setup.applied, "the choice")
        assert setup.keys == [("openai", "sk-shared")]


async def test_after_the_key_of_a_provider_without_a_proposed_model_the_models_are_listed(run: Run) -> None:
    setup = FakeSetup(SetupOffers())
    async with run(size=(80, 24), **first_run(setup)) as driver:
        await card(driver)
        driver.app.screen.post_message(events.Paste("sk-shared"))
        await driver.until(lambda: "•••" in driver.text(), "the field")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Choose it with ↓" in driver.text(), "the providers")
        await driver.pilot.press("end", "enter")
        await driver.until(lambda: setup.keys == [("openrouter", "sk-shared")], "the key")
        await driver.until(lambda: type(driver.app.screen).__name__ == "ModelsScreen", "the models")
        assert setup.releases == 0
        await driver.pilot.press("escape")
        await driver.until(lambda: setup.releases, "the release")


async def test_the_card_shows_the_folder_of_a_projects_server(run: Run) -> None:
    server = ServerConfig(name="here", command="run", cwd="/home/ada/proj")
    found = ForeignServer(name="here", host="Claude Code", file="/f", entry={"command": "run", "cwd": "/home/ada/proj"})
    here = ImportCandidate(found=found, hosts=("Claude Code",), state="new", name="here", server=server)
    async with run(size=(120, 24), **first_run(FakeSetup(SetupOffers(MODELS, (here,))))) as driver:
        await card(driver)
        assert "run in /home/ada/proj" in driver.text()


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (120, 40)])
async def test_the_buttons_are_visible_with_many_models_and_servers(run: Run, size: tuple[int, int]) -> None:
    many = SetupOffers(MODELS * 20, tuple(candidate(f"server{at}", "x") for at in range(60)))
    async with run(size=size, **first_run(FakeSetup(many))) as driver:
        await card(driver)
        assert "Skip" in driver.text()
        assert "Start" in driver.text()


@pytest.mark.parametrize(
    ("place", "words"),
    [("keyring", "stored in the keyring"), ("file", "stored in a file"), ("session", "kept until mcphost quits")],
)
async def test_the_card_says_where_the_key_will_be_kept_before_it_is_pasted(run: Run, place: str, words: str) -> None:
    setup = FakeSetup(SetupOffers((), ()))
    setup.key_place = place
    async with run(size=(120, 24), **first_run(setup)) as driver:
        await driver.until(lambda: f"Gemini and others); {words}" in driver.text(), "the label")
        assert place == "keyring" or "in the keyring" not in driver.text()
