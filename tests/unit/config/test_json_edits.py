"""Tests for editing JSON text that contains comments."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphost.config.json_edits import remove_member, set_member
from mcphost.config.json_files import parse_json
from mcphost.errors import ConfigError

FILE = "mcp.json"
ENTRY = {"command": "uvx", "args": ["mcp-server-time"]}
COMMENTED = """\
{
    // my servers
    "mcpServers": {
        "a": {"command": "one"}, // the first, with a comma
        "b": {
            "command": "two" /* "c": {} */
        } // the last
        // and nothing after it
    },
    "other": [1, 2, {"deep": "}"}],
}
"""


def test_a_new_member_comes_last_with_the_indentation_of_its_neighbours() -> None:
    edited = set_member(COMMENTED, FILE, ("mcpServers", "time"), ENTRY)
    assert edited == COMMENTED.replace(
        """        } // the last
        // and nothing after it
""",
        """        }, // the last
        // and nothing after it
        "time": {
            "command": "uvx",
            "args": [
                "mcp-server-time"
            ]
        }
""",
    )


@pytest.mark.parametrize(
    "text", ["", "\n", "{}", "\ufeff", "\ufeff{}", '{"mcpServers": {}}', '{\n  "mcpServers": {}\n}']
)
def test_the_first_server_is_written_to_an_empty_file_or_object(text: str) -> None:
    edited = set_member(text, FILE, ("mcpServers", "time"), ENTRY)
    assert parse_json(edited.removeprefix("\ufeff"), FILE) == {"mcpServers": {"time": ENTRY}}
    assert '\n    "time": {\n' in edited or '\n  "time": {\n' in edited


def test_an_existing_member_is_replaced_and_nothing_else() -> None:
    edited = set_member(COMMENTED, FILE, ("mcpServers", "a", "command"), "uno")
    assert edited == COMMENTED.replace('"one"', '"uno"')


def test_a_trailing_comma_and_windows_line_ends_are_kept() -> None:
    text = '{\r\n\t"mcpServers": {\r\n\t\t"a": {},\r\n\t},\r\n}\r\n'
    edited = set_member(text, FILE, ("mcpServers", "b"), {"url": "https://b"})
    assert edited == (
        '{\r\n\t"mcpServers": {\r\n\t\t"a": {},\r\n\t\t"b": {\r\n\t\t\t"url": "https://b"\r\n\t\t},\r\n\t},\r\n}\r\n'
    )


def test_an_object_on_one_line_stays_on_one_line() -> None:
    assert (
        set_member('{"mcpServers": {"a": {}}}', FILE, ("mcpServers", "b"), {}) == '{"mcpServers": {"a": {}, "b": {}}}'
    )


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("a", COMMENTED.replace('\n        "a": {"command": "one"},', "")),
        (
            "b",
            COMMENTED.replace('"one"}, //', '"one"} //').replace(
                """
        "b": {
            "command": "two" /* "c": {} */
        }""",
                "",
            ),
        ),
    ],
)
def test_a_removed_member_takes_its_comma_and_leaves_all_comments_around_it(name: str, left: str) -> None:
    assert remove_member(COMMENTED, FILE, ("mcpServers", name)) == left


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("[]", ("mcpServers", "a"), "is not a JSON object"),
        ('{"mcpServers": []}', ("mcpServers", "a"), '"mcpServers" is not an object'),
        ('{"mcpServers": {"a": 1, "a": 2}}', ("mcpServers", "a"), '"a" twice'),
        ('{"mcpServers": {}, "mcpServers": {}}', ("mcpServers", "a"), '"mcpServers" twice'),
        ('{"mcpServers": ', ("mcpServers", "a"), "not valid JSON"),
    ],
)
def test_an_edit_that_could_be_wrong_is_refused(text: str, path: tuple[str, ...], said: str) -> None:
    for edit in (lambda: set_member(text, FILE, path, {}), lambda: remove_member(text, FILE, path)):
        with pytest.raises(ConfigError, match=said):
            edit()


def test_a_missing_member_cannot_be_removed() -> None:
    with pytest.raises(ConfigError, match=r'there is no "mcpServers\.x"'):
        remove_member(COMMENTED, FILE, ("mcpServers", "x"))


_KEYS = st.text(st.sampled_from([*string.ascii_letters, "/", '"', ",", "}", "\\", "é", " "]), min_size=1, max_size=6)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | _KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


def _with_comments(document: Any, choose: Any) -> str:
    """Return *document* as JSON with random comments and trailing commas between its tokens."""
    text = json.dumps(document, indent=choose.draw(st.sampled_from([None, 2, "\t"])), ensure_ascii=False)
    lines = text.split("\n")
    marks = st.sampled_from(["", "", " // a, b } {", ' /* "x": 1, */'])
    commented = [f"{line}{choose.draw(marks)}" for line in lines]
    return "\n".join(commented) if len(lines) > 1 else text


@given(
    st.data(), st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=4), max_size=3), _KEYS, _KEYS, _VALUES
)
def test_any_edit_changes_exactly_one_value(
    data: Any, document: dict[str, dict[str, Any]], outer: str, inner: str, value: Any
) -> None:
    text = _with_comments(document, data)
    edited = set_member(text, FILE, (outer, inner), value)
    expected = {**document, outer: {**document.get(outer, {}), inner: value}}
    assert parse_json(edited, FILE) == expected
    removed = remove_member(edited, FILE, (outer, inner))
    del expected[outer][inner]
    assert parse_json(removed, FILE) == expected
    if inner not in document.get(outer, {}):
        for comment in ("// a, b } {", '/* "x": 1, */'):
            assert removed.count(comment) == text.count(comment)
