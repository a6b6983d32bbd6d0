"""Tests for keyboard shortcuts changed in config.toml: which ones are accepted, and the problems reported."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.screen import Screen

import mcphost
import mcphost.tui.dialogs
import mcphost.tui.screens
from mcphost.translation import translate_sentence
from mcphost.tui.actions import ACTIONS
from mcphost.tui.key_table import (
    DEFAULT_KEYS,
    FIXED_KEYS,
    HOST_HINTS,
    QUESTION_KEYS,
    build_key_table,
    has_kitty_keys,
    read_key_settings,
)


def change(**wanted: str | tuple[str, ...]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the keys of each action after changing some in config.toml, and the texts of the problems."""
    table, problems = build_key_table({
        name: (keys,) if isinstance(keys, str) else keys for name, keys in wanted.items()
    })  # fmt: skip
    assert {one.entry for one in problems} <= set(wanted)
    return {action.name: table.keys_of(action.name) for action in ACTIONS}, tuple(one.text for one in problems)


def test_without_changes_each_key_is_that_of_the_action_and_is_shown_alike() -> None:
    keys, problems = change()
    assert problems == ()
    assert keys == {action.name: action.default_keys for action in ACTIONS}
    assert [DEFAULT_KEYS.short(name) for name in ("palette", "help", "grants", "stop")] == ["ctrl+p", "F1", "F7", "esc"]
    assert [DEFAULT_KEYS.long(name) for name in ("palette", "help", "grants", "stop")] == ["Ctrl+P", "F1", "F7", "Esc"]
    assert DEFAULT_KEYS.short("costs") == "/cost"


def test_no_two_actions_have_the_same_key() -> None:
    keys = [key for action in ACTIONS for key in action.default_keys]
    assert len(keys) == len(set(keys))


def test_an_action_gets_other_keys_by_its_name_or_its_slash_command() -> None:
    keys, problems = change(theme="Ctrl+K", sidebar=("f2", "alt+s"), costs="alt+c")
    assert problems == ()
    assert (keys["theme"], keys["toggle_servers"], keys["costs"]) == (("ctrl+k",), ("f2", "alt+s"), ("alt+c",))


def test_an_empty_list_takes_the_keys_away() -> None:
    keys, problems = change(theme=())
    assert (keys["theme"], problems) == ((), ())


@pytest.mark.parametrize("name", ["answer", "auto_approval", "auto-approve"])
def test_the_way_to_questions_and_the_end_of_auto_approve_always_have_a_key(name: str) -> None:
    keys, (problem,) = change(**{name: ()})
    assert (keys["answer"], keys["auto_approval"]) == (("f8",), ("f9",))
    assert name in problem
    keys, problems = change(help="f8", history="f9")
    assert (keys["answer"], keys["auto_approval"], keys["help"], keys["history"]) == (("f8",), ("f9",), (), ())
    assert len(problems) == 2


def test_escape_always_stops() -> None:
    assert change(stop="ctrl+x")[0]["stop"] == ("ctrl+x", "escape")
    assert change(stop=())[0]["stop"] == ("escape",)


@pytest.mark.parametrize(
    "key",
    ["a", "A", "1", "!", "é", "中", "space", "enter", "tab", "shift+a", "shift+tab", "up", "backspace", "delete",
     "ctrl+c", "ctrl+s", "ctrl+j", "ctrl+m", "ctrl+i", "ctrl+h", "escape", "ctrl+v"],
)  # fmt: skip
@pytest.mark.parametrize("name", [action.name for action in ACTIONS])
def test_no_action_gets_a_key_that_types_confirms_or_leaves(name: str, key: str) -> None:
    keys, problems = change(**{name: key})
    assert key.lower() not in {
        one for name, all_of in keys.items() for one in all_of if (name, one) != ("stop", "escape")
    }
    assert key in problems[0]
    assert len(problems) == 1


@pytest.mark.parametrize("key", ["", "ctrl+", "+", "hello", "ctrl+hello", "strg+k", "f0", "f25", "ctrl+f99", "^K"])
def test_what_is_no_key_is_reported_with_an_example(key: str) -> None:
    keys, problems = change(theme=key)
    assert keys["theme"] == ("ctrl+l",)
    assert "ctrl+k" in problems[0]


def test_an_unknown_action_is_reported_with_the_closest_one() -> None:
    assert change(themes_="ctrl+k")[1] == ('"themes_" is not an action; did you mean "theme"?',)
    assert change(xyzzy="ctrl+k")[1] == ('"xyzzy" is not an action; /help lists them.',)


def test_a_key_that_another_action_had_moves_to_the_users() -> None:
    keys, (problem,) = change(theme="f6")
    assert (keys["theme"], keys["history"]) == (("f6",), ())
    assert problem == (
        'f6 is now assigned to "theme", which leaves "history" with /history. '
        'Give "history" another key, or write history = [] for none.'
    )
    assert change(theme="f6", history=())[1] == ()


def test_an_action_that_is_written_twice_is_reported() -> None:
    keys, (problem,) = change(sidebar="f2", toggle_servers="ctrl+k")
    assert keys["toggle_servers"] == ("f2",)
    assert problem == '"toggle_servers" is the same action as "sidebar"; write all its keys there.'


def test_two_actions_can_swap_their_keys_without_a_word() -> None:
    keys, problems = change(theme="f6", history="ctrl+l")
    assert (keys["theme"], keys["history"], problems) == (("f6",), ("ctrl+l",), ())


def test_one_key_for_two_actions_goes_to_the_first() -> None:
    keys, problems = change(theme="ctrl+k", history="ctrl+k")
    assert (keys["theme"], keys["history"]) == (("ctrl+k",), ("f6",))
    assert problems == (
        '"history": ctrl+k is already assigned to "theme"; choose another key; its default key F6 stays in use.',
    )


def test_an_action_without_a_default_key_stays_at_its_command() -> None:
    assert change(tasks="a")[1][0].endswith("use a function key; it is still reached with /tasks.")
    assert change(quit="ctrl+s")[1] == (
        '"quit": ctrl+s always confirms forms and questions; choose another key; its default key Ctrl+Q stays in use.',
    )


def test_a_key_that_some_pages_use_themselves_is_reported_with_their_actions() -> None:
    keys, (moved, problem) = change(history="ctrl+f")
    assert moved.startswith('ctrl+f is now assigned to "history", which leaves "find" with /find.')
    assert keys["history"] == ("ctrl+f",)
    assert problem == (
        '"history": ctrl+f does not work on pages that use it for "viewer-find", "list-search". '
        "Choose another key, or change theirs."
    )
    assert len(change(**{"history": "ctrl+f", "viewer-find": "/", "list-search": "alt+s"})[1]) == 1
    assert change(history="ctrl+k")[1] == ()
    (problem,) = change(**{"history": "ctrl+a", "setup-select-all": ("alt+a", "ctrl+a")})[1]
    assert "ctrl+a" in problem


@pytest.mark.parametrize("key", sorted(QUESTION_KEYS))
@pytest.mark.parametrize("name", ["answer", "auto_approval", "quit"])
def test_what_works_over_questions_takes_no_key_of_them(name: str, key: str) -> None:
    keys, problems = change(**{name: key})
    assert key not in keys[name]
    assert "belongs to questions" in problems[0]


def test_every_key_of_a_question_or_form_is_known() -> None:
    """The list of known dialog keys must be complete, because no action may take over a key that a dialog uses."""
    found: set[str] = set()
    for package in (mcphost.tui.dialogs, mcphost.tui.screens):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for one in vars(importlib.import_module(module.name)).values():
                if isinstance(one, type) and issubclass(one, Screen):
                    for entry in one.__dict__.get("BINDINGS", ()):
                        keys = entry.key if isinstance(entry, Binding) else entry[0]
                        found.update(keys.split(","))
    assert {"ctrl+s", "ctrl+e"} <= found
    assert {key for key in found if key.startswith(("ctrl+", "alt+"))} <= QUESTION_KEYS | set(FIXED_KEYS)


@pytest.mark.parametrize(
    ("key", "said"),
    [("ctrl+1", "Kitty"), ("ctrl+shift+k", "Kitty"), ("super+k", "Kitty"), ("f13", "missing"), ("shift+f3", "missing"),
     ("f11", "full screen")],
)  # fmt: skip
def test_a_key_that_common_terminals_do_not_send_is_reported_and_used(key: str, said: str) -> None:
    keys, (problem,) = change(theme=key)
    assert keys["theme"] == (key,)
    assert said in problem


@pytest.mark.parametrize(
    ("environ", "is_told"),
    [({"TERM": "xterm-256color"}, True), ({"TERM": "xterm-kitty"}, False), ({"TERM_PROGRAM": "ghostty"}, False),
     ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, True)],
)  # fmt: skip
def test_a_terminal_that_sends_the_key_needs_no_warning(environ: dict[str, str], is_told: bool) -> None:
    assert bool(build_key_table({"theme": ["ctrl+1"]}, kitty=has_kitty_keys(environ))[1]) is is_told
    assert build_key_table({"theme": ["f13"]}, kitty=has_kitty_keys(environ))[1]


@pytest.mark.parametrize("key", ["ctrl+k", "f11", "alt+k", "ctrl+pageup", "alt+1", "alt+ctrl+k"])
def test_a_key_has_one_spelling(key: str) -> None:
    modifiers, name = key.split("+")[:-1], key.rsplit("+", maxsplit=1)[-1]
    assert change(theme="+".join([*reversed(modifiers), name]).upper())[0]["theme"] == (key,)


def test_texts_name_the_key_in_use_or_the_command() -> None:
    table, _ = build_key_table({"help": ("ctrl+k",), "theme": ()})
    assert table.fill("{help}, {theme}, {answer}, {other}") == "Ctrl+K, /theme, F8, {other}"
    assert ("ctrl+k", "help", "help") in table.footer(can_stop=False)


def test_the_row_of_keys_leaves_out_actions_without_a_key() -> None:
    table, _ = build_key_table({"folders": ["f5"], "prompts": []})
    assert "prompts" in {name for _, _, name in DEFAULT_KEYS.footer(can_stop=False)}
    assert "prompts" not in {name for _, _, name in table.footer(can_stop=False)}


@pytest.mark.parametrize(
    "table", [None, 3, [], {"theme": 3}, {"theme": ["x"] * 9}, {"theme": "x" * 999}, {"theme": {}}]
)
def test_a_table_of_the_wrong_form_changes_nothing(table: object) -> None:
    assert read_key_settings(table) == {}


def test_a_table_of_many_entries_is_cut() -> None:
    assert len(read_key_settings({f"a{n}": "ctrl+k" for n in range(100_000)})) == 200


_KEY = re.compile(r"\bPress Esc\b|\bF\d{1,2}\b|\bCtrl\+\w|, then \w\b(?! )")


def read_texts_with_keys() -> Iterator[str]:
    """Yield each string of the layers below the screens that names a key."""
    root = Path(mcphost.__file__).parent
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in {"tui", "cli", "headless", "demo"}:
            continue
        tree = ast.parse(path.read_bytes())
        told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            value = node.value if isinstance(node, ast.Constant) and id(node) not in told else None
            if isinstance(value, str) and _KEY.search(value):
                yield value


def test_every_text_of_the_host_that_names_a_key_is_known_to_the_screens() -> None:
    found = list(read_texts_with_keys())
    assert len(found) >= len(HOST_HINTS)
    assert set(found) == {DEFAULT_KEYS.fill(one) for one in HOST_HINTS}


def test_hints_of_the_host_have_the_changed_keys() -> None:
    table, _ = build_key_table({"servers": ["ctrl+k"], "servers-restart": ["R"], "models-retry-tools": ["alt+y"]})
    try:
        table.use_in_hints()
        assert translate_sentence("files was stopped. Start it: F3, then r.") == (
            "files was stopped. Start it: Ctrl+K, then R."
        )
        assert translate_sentence("Enable it: F3, then d.") == "Enable it: Ctrl+K, then d."
        assert translate_sentence("It said: Start it: F3, then r. Now.") == "It said: Start it: F3, then r. Now."
        assert "Alt+Y in /models" in translate_sentence(
            "To try them again: Ctrl+R in /models, or: mcphost models --retry-tools"
        )
    finally:
        DEFAULT_KEYS.use_in_hints()
    assert translate_sentence("Enable it: F3, then d.") == "Enable it: F3, then d."
