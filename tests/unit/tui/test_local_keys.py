"""Tests for the keys of single screens and widgets: one table lists them, and config.toml can change each."""

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

import mcphost.tui
from mcphost.tui.actions import ACTIONS
from mcphost.tui.key_table import DEFAULT_KEYS, FIXED_KEYS, build_key_table
from mcphost.tui.local_keys import FIXED_KEYS_OF_PLACES, LOCAL_ACTIONS, default_local_keys, normalize_key, work_together
from mcphost.tui.screens.list_screen import ListScreen
from mcphost.tui.transcript.blocks import UserMessage

UNNAMED = {
    "enter", "space", "tab", "shift+tab", "shift+enter", "escape", "q", "up", "down", "left", "right", "pageup",
    "pagedown", "home", "end", "g", "G", "slash", "ctrl+s", "ctrl+t", "ctrl+space",
}  # fmt: skip
"""Keys that move, search, leave, choose or confirm, and those of text fields: the same everywhere, and fixed."""


def change(**wanted: tuple[str, ...]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    table, problems = build_key_table({name.replace("__", "-"): keys for name, keys in wanted.items()})
    return table.local_changes, tuple(one.text for one in problems)


def collect_bindings() -> dict[str, list[Binding]]:
    """Return the named and unnamed bindings of all widgets and screens except dialogs, by their id."""
    found: dict[str, list[Binding]] = defaultdict(list)
    for module in pkgutil.walk_packages(mcphost.tui.__path__, "mcphost.tui."):
        if module.name.startswith("mcphost.tui.dialogs"):
            continue
        for one in vars(importlib.import_module(module.name)).values():
            if isinstance(one, type) and issubclass(one, DOMNode) and one.__module__ == module.name:
                for binding in Binding.make_bindings(one.__dict__.get("BINDINGS", ())):
                    found[binding.id or ""].append(binding)
    return found


def test_every_binding_outside_of_dialogs_has_a_name_in_the_table_or_a_key_that_is_fixed_everywhere() -> None:
    found = collect_bindings()
    assert {binding.key for binding in found.pop("")} <= UNNAMED
    composer = {"message-steer"}  # handled by the text area itself
    assert found.keys() | composer == LOCAL_ACTIONS.keys()
    for name, bindings in found.items():
        assert {binding.key for binding in bindings} == set(map(normalize_key, default_local_keys(name))), name


def test_two_actions_that_work_at_the_same_time_have_different_default_keys() -> None:
    for one, other in combinations(LOCAL_ACTIONS, 2):
        if work_together(one, other):
            assert not set(default_local_keys(one)) & set(default_local_keys(other)), (one, other)


def test_no_text_of_a_page_names_the_default_key_of_an_action_whose_key_can_be_changed() -> None:
    default_key = re.compile(r"(?i:\bctrl\+[aefnort]\b)|\b[Pp]ress [a-zA-Z]\b|\benter (?:opens|folds|unfolds)\b")
    found: list[str] = []
    for path in sorted(Path(mcphost.tui.__file__).parent.rglob("*.py")):
        if path.parent.name in ("dialogs", "forms", "tui") or path.name in ("qr_code.py", "help_keys.py"):
            continue  # their keys are fixed
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("_", "N_", "ngettext")
            ):
                texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                found += [f"{path.name}: {text}" for text in texts if default_key.search(text)]
    assert found == []


def test_hints_of_the_transcript_show_the_changed_key() -> None:
    table, problems = build_key_table({"conversation-open": ("j",)})
    assert not problems
    message = UserMessage("\n".join("line" for _ in range(200)))
    message.keys, message.has_cursor = table, True
    assert message.render(80)[-1].content.plain.endswith("more lines · j unfolds")


def test_no_global_action_has_a_name_like_that_of_a_single_screen() -> None:
    assert not LOCAL_ACTIONS.keys() & {name for one in ACTIONS for name in (one.name, one.slash)}
    assert all("-" in name for name in LOCAL_ACTIONS)


def test_a_key_of_a_screen_is_a_letter_or_a_key_with_ctrl_or_alt_or_a_function_key() -> None:
    assert change(servers__restart=("R", "ctrl+k", "f11", "alt+r"))[0] == {
        "servers-restart": ("R", "ctrl+k", "f11", "alt+r")
    }
    assert change(conversation__copy=(",",)) == ({"conversation-copy": (",",)}, ())


def test_a_screen_can_lose_a_key() -> None:
    assert change(servers__restart=()) == ({"servers-restart": ()}, ())


@pytest.mark.parametrize("key", ["enter", "tab", "space", "up", "home", "shift+a", *FIXED_KEYS])
def test_no_action_of_a_screen_gets_a_key_that_moves_leaves_or_confirms(key: str) -> None:
    keys, (problem,) = change(servers__restart=(key,))
    assert keys == {}
    assert problem.startswith(f'"servers-restart": {key} ')
    assert problem.endswith("its default key r stays in use.")


def test_an_action_may_keep_its_own_default_key_that_others_cannot_have() -> None:
    assert change(queue__remove=("delete", "k")) == ({"queue-remove": ("delete", "k")}, ())
    assert change(models__save=("ctrl+s", "ctrl+k")) == ({"models-save": ("ctrl+s", "ctrl+k")}, ())


def test_a_key_of_an_action_that_works_everywhere_is_refused() -> None:
    keys, (problem,) = change(servers__restart=("f1",))
    assert keys == {}
    assert (
        problem
        == '"servers-restart": f1 is already assigned to "help"; choose another key; its default key r stays in use.'
    )


def test_a_key_of_another_action_on_the_same_screen_moves_and_is_reported() -> None:
    keys, (problem,) = change(servers__restart=("t",))
    assert keys == {"servers-restart": ("t",), "servers-tools": ()}
    assert problem == (
        't is now assigned to "servers-restart", which leaves "servers-tools" with no key. '
        'Give "servers-tools" another key, or write servers-tools = [] for none.'
    )
    assert change(servers__restart=("t",), servers__tools=("r",))[1] == ()


def test_one_key_for_two_actions_of_a_screen_goes_to_the_first_and_other_screens_may_share_it() -> None:
    keys, (problem,) = change(servers__restart=("k",), servers__stop=("k",), history__fork=("k",))
    assert keys == {"servers-restart": ("k",), "history-fork": ("k",)}
    assert problem == (
        '"servers-stop": k is already assigned to "servers-restart"; choose another key; '
        "its default key p stays in use."
    )


def test_the_search_of_lists_has_a_key_that_no_list_uses() -> None:
    keys, (problem,) = change(list__search=("ctrl+e",))
    assert keys == {"list-search": ("ctrl+e",), "models-settings": ()}
    assert 'ctrl+e is now assigned to "list-search"' in problem
    assert change(server__form__scope=("ctrl+k",), list__search=("ctrl+k",), message__steer=("ctrl+k",))[1] == ()


@pytest.mark.parametrize("name", [name for name in LOCAL_ACTIONS if "+" in LOCAL_ACTIONS[name].split(",")[0]])
def test_what_works_in_text_fields_gets_no_key_that_types(name: str) -> None:
    table, (problem,) = build_key_table({name: ["k"]})
    assert table.local_changes == {}
    assert "k types text or moves the cursor" in problem.text


def test_an_unknown_name_is_reported_with_the_closest_one() -> None:
    assert change(servers__restrat=("k",))[1] == (
        '"servers-restrat" is not an action; did you mean "servers-restart"?',
    )


def test_texts_name_the_changed_key_and_hints_leave_out_a_removed_one() -> None:
    table, _ = build_key_table({"servers-restart": ["R"], "conversation-copy": [], "models-add": ["ctrl+k"]})
    text = "{servers-restart} {servers-tools} {conversation-copy} {models-add} {conversation-previous-message}"
    assert table.fill(text) == "R t – Ctrl+K {"
    assert table.fill(text, in_sentence=False) == "R t ctrl+k {"
    hints = (
        "{conversation-copy} copies · {servers-restart} {conversation-copy} restarts · {conversation-copy} {size} · x"
    )
    assert table.fill(hints, in_sentence=False) == "R restarts · x"
    assert table.fill("{conversation-copy} copies", in_sentence=False) == ""
    assert DEFAULT_KEYS.fill(text) == "r t c Ctrl+N {"


@pytest.mark.parametrize(
    ("name", "key"),
    [("viewer-copy", "g"), ("viewer-next", "q"), ("viewer-find", "G")],
)
def test_no_action_of_a_page_gets_a_key_that_moves_in_its_text_or_leaves_it(name: str, key: str) -> None:
    table, (problem,) = build_key_table({name: [key]})
    assert table.local_changes == {}
    assert problem.text.startswith(f'"{name}": {key} always ')
    assert problem.text.endswith(f"choose another key; its default key {DEFAULT_KEYS.long(name)} stays in use.")


def test_keys_of_the_text_viewer_can_be_used_elsewhere() -> None:
    assert build_key_table({"conversation-copy": ["g"], "queue-remove": ["q"]})[1] == ()


@pytest.mark.parametrize(
    "name", ["servers-restart", "history-pin", "registry-guide", "tools-pin", "permissions-revoke"]
)
def test_no_action_of_a_list_gets_the_key_that_starts_its_search(name: str) -> None:
    table, (problem,) = build_key_table({name: ["/"]})
    assert table.local_changes == {}
    assert problem.text == (
        f'"{name}": / always starts a search; choose another key; '
        f"its default key {DEFAULT_KEYS.long(name)} stays in use."
    )


def test_the_key_that_starts_the_search_of_lists_can_be_used_elsewhere() -> None:
    assert build_key_table({"conversation-copy": ["/"]})[1] == ()
    assert build_key_table({"viewer-copy": ["/"], "viewer-find": ["f"]})[1] == ()


def test_each_key_that_is_fixed_in_lists_is_bound_there() -> None:
    bound = {binding.key for binding in Binding.make_bindings(ListScreen.BINDINGS)}
    assert set(map(normalize_key, FIXED_KEYS_OF_PLACES["list"])) <= bound


@pytest.mark.parametrize("key", ["{", "}"])
@pytest.mark.parametrize("name", LOCAL_ACTIONS)
def test_a_brace_can_be_the_key_of_each_action_whose_keys_may_be_characters(name: str, key: str) -> None:
    table, _problems = build_key_table({name: [key]})
    shown = table.long(name)
    assert shown == key or "+" in shown
    assert table.fill(f"Press {{{name}}} for {{title}}: {{size:,}}", title="{help}", size=1234) == (
        f"Press {shown} for {{help}}: 1,234"
    )


def test_no_text_is_formatted_after_its_keys_were_filled_in() -> None:
    """A key can be a brace; therefore, `fill` formats the text as well."""
    found: list[str] = []
    for path in Path(mcphost.tui.__path__[0]).rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found += [f"{path.name}:{line}" for line in find_late_formatting(function)]
    assert found == []


def find_late_formatting(function: ast.AST) -> Iterator[int]:
    """Yield the lines that call `format` on a text whose keys were filled in by the same function."""
    nodes = [*ast.walk(function)]
    filled = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and fills_keys(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "format":
            text = node.value
            if fills_keys(text) or (isinstance(text, ast.Name) and text.id in filled):
                yield node.lineno


def fills_keys(node: ast.AST) -> bool:
    """Return whether *node* calls `fill` or `fill_keys`."""
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name in {"fill", "fill_keys"}
