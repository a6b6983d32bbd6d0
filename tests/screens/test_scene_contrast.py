"""Tests that every text in the pictures of all screens can be read in dark and light themes."""

from typing import Any

import pytest
from textual.pilot import Pilot

from mcphost.tui import themes
from mcphost.tui.themes import ThemeOptions
from tests.screens.conftest import Run
from tests.screens.rendering import outdated_styles, weak_texts
from tests.screens.screenshots import SCREENS, show_turn
from tests.screens.setup_screens import SETUP_SCREENS

pytestmark = pytest.mark.anyio
# Pictures that show the same widgets as another one, with other words or another part of them.
_REPEATED = """
readme edited edit_fault form_long form_long_first form_paged form_field form_secret_twice nasty_edit
nasty_edit_last nasty_edit_open nasty_fill nasty_fill_first nasty_result nasty_sampling_edit nasty_roots
nasty_reply nasty_visit nasty_retry nasty_sign_in nasty_enter_client nasty_trust_address waiting_opened
waiting_many write_end sign_in_paste sign_in_here enter_client keep_secrets_differ history-export
context_server context_results roots_chosen crowded_tools no_resources no_prompts
"""
_NAMES = sorted(set(SCREENS) - set(SETUP_SCREENS) - set(_REPEATED.split()))
_OTHER_THEMES = sorted(set(themes.names()) - {themes.DEFAULT, themes.DEFAULT_LIGHT})


@pytest.mark.parametrize("name", _NAMES)
async def test_every_text_of_a_picture_can_be_read(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge all but the pictures of the set-up, which `test_theme_contrast` judges in every theme.

    Each picture is judged in the default themes and in one of the others, and each of those has many pictures.
    """
    monkeypatch.setenv("COLORTERM", "truecolor")
    pause = Pilot.pause

    async def pause_until_idle(pilot: Pilot[Any], delay: float | None = None) -> None:
        del delay
        await pause(pilot, 0)

    monkeypatch.setattr(Pilot, "pause", pause_until_idle)
    is_first = name == "start"
    theme = ThemeOptions(themes.DEFAULT)
    async with run(size=(80, 24), theme=theme, turn=show_turn, no_model=is_first, demo=is_first) as driver:
        await SCREENS[name](driver.pilot, driver.host)
        assert not outdated_styles(driver.app)
        weak = {themes.DEFAULT: weak_texts(driver.app)}
        for other in (themes.DEFAULT_LIGHT, _OTHER_THEMES[_NAMES.index(name) % len(_OTHER_THEMES)]):
            driver.app.theme_choice.choose(other)
            await driver.pilot.pause()
            weak[other] = weak_texts(driver.app)
        assert not any(weak.values()), weak
