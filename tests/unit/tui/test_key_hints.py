"""Tests for clickable key hints: which key a hint presses."""

import pytest

from mcphost.tui.widgets.key_hints import link_keys, parse_key


@pytest.mark.parametrize(
    ("hint", "key"),
    [
        ("esc/d deny", "escape"),
        ("d deny", "d"),
        ("A always", "A"),
        ("ctrl+s apply", "ctrl+s"),
        ("ctrl+s save", "ctrl+s"),
        ("F8 answer", "f8"),
        ("enter chooses", "enter"),
        ("tab/shift+tab next", "tab"),
        ("shift+tab back", "shift+tab"),
        ("↑ ↓ select", ""),
        ("page up/down scroll", ""),
        ("press F8 or tab to answer", ""),
        ("/ find", ""),
        ("", ""),
    ],
)
def test_a_hint_presses_the_first_key_that_it_names(hint: str, key: str) -> None:
    assert parse_key(hint) == key


def test_linked_hints_have_the_same_text_without_any_markup() -> None:
    text = "esc/d deny · [b]a[/b] once\nctrl+s apply · page up/down"
    assert link_keys(text).plain == text
