"""Tests for the settings that are left out of an entry that somebody else wrote."""

from typing import Any

import pytest

from mcphost.config.foreign_entries import drop_reserved_settings, keep_restrictions
from mcphost.config.schema import SamplingLimits


@pytest.mark.parametrize(
    "own",
    [
        {"timeout": 5, "reviewResults": True, "disabledTools": ["x"], "inputs": [], "oauth": {"clientId": "a"}},
        {"trustAnnotations": False, "sampling": {}, "oauth": {"private": False, "resource": ""}},
        "not an object",
    ],
)
def test_an_entry_that_widens_nothing_is_kept_as_it_is(own: Any) -> None:
    entry = {"command": "a", "mcphost": own}
    assert drop_reserved_settings("x", entry) == (entry, ())


@pytest.mark.parametrize(
    ("own", "kept", "named"),
    [
        ({"trustAnnotations": True}, {}, '"mcphost.trustAnnotations"'),
        ({"trustAnnotations": "true"}, {}, '"mcphost.trustAnnotations"'),
        ({"sampling": {"requestsPerMinute": 9}, "timeout": 5}, {"timeout": 5}, '"mcphost.sampling"'),
        ({"registry": {"url": "https://x.example"}}, {}, '"mcphost.registry"'),
        ({"oauth": {"private": True, "clientId": "a"}}, {"oauth": {"clientId": "a"}}, '"mcphost.oauth.private"'),
        ({"oauth": {"resource": "https://x.example"}}, {"oauth": {}}, '"mcphost.oauth.resource"'),
        ({"later\u202esetting": 1}, {}, '"mcphost.later'),
    ],
)
def test_what_only_the_user_may_decide_is_left_out_and_named(own: Any, kept: dict[str, Any], named: str) -> None:
    entry, (note,) = drop_reserved_settings("my server", {"command": "a", "mcphost": own})
    assert entry == {"command": "a", **({"mcphost": kept} if kept else {})}
    assert named in note
    assert "\u202e" not in note
    assert "mcphost servers edit 'my server'" in note


def test_many_reserved_settings_make_no_long_sentence() -> None:
    _, (note,) = drop_reserved_settings("x", {"mcphost": {f"key{number}" * 30: 1 for number in range(5_000)}})
    assert len(note) < 1_000


LIMITS = SamplingLimits(requests_per_minute=30, depth=2)


@pytest.mark.parametrize(
    ("old", "new", "expected", "named"),
    [
        (
            {"mcphost": {"reviewResults": True, "disabledTools": ["rm"], "timeout": 5}},
            {},
            {"mcphost": {"reviewResults": True, "disabledTools": ["rm"], "timeout": 5}},
            ['Kept from the entry that is replaced: "mcphost.reviewResults", "mcphost.disabledTools", '
             '"mcphost.timeout".'],
        ),
        (
            {"disabledTools": ["rm"], "mcphost": {"timeout": 5}},
            {"mcphost": {"timeout": 9}},
            {"disabledTools": ["rm"], "mcphost": {"timeout": 9}},
            ['Kept from the entry that is replaced: "disabledTools".',
             'Not kept from the entry that is replaced: "mcphost.timeout".'],
        ),
        (
            {"mcphost": {"disabledTools": ["rm"]}},
            {"disabledTools": []},
            {"disabledTools": []},
            ['Not kept from the entry that is replaced: "mcphost.disabledTools".'],
        ),
        (
            {"mcphost": {"trustAnnotations": True, "oauth": {"port": 1}, "caFile": "a", "registry": {"a": "x"}}},
            {},
            {},
            ['Not kept from the entry that is replaced: "mcphost.trustAnnotations", "mcphost.oauth", '
             '"mcphost.caFile", "mcphost.registry".'],
        ),
        (
            {"mcphost": {"sampling": {"requestsPerMinute": 3, "depth": 9}}},
            {},
            {"mcphost": {"sampling": {"requestsPerMinute": 3}}},
            ['Kept from the entry that is replaced: "mcphost.sampling".',
             'Not kept from the entry that is replaced: "mcphost.sampling.depth".'],
        ),
        ({"disabled": True}, {}, {}, ['Not kept from the entry that is replaced: "disabled".']),
        ({"mcphost": {"reviewResults": False}, "env": {"A": "1"}}, {}, {}, []),
        ({"mcphost": {"timeout": 5}}, {"mcphost": {"timeout": 5}}, {"mcphost": {"timeout": 5}}, []),
    ],
)  # fmt: skip
def test_a_replaced_entry_leaves_its_restrictions_and_nothing_that_widens(
    old: dict[str, Any], new: dict[str, Any], expected: dict[str, Any], named: list[str]
) -> None:
    entry, notes = keep_restrictions("my server", {"command": "a", **old}, {"command": "b", **new}, LIMITS)
    assert entry == {"command": "b", **expected}
    assert [note.partition(" Set it with")[0] for note in notes] == named


def test_what_is_not_an_object_in_a_replaced_entry_is_not_kept() -> None:
    for own in ("text", {"sampling": "text"}, {"sampling": {"depth": "1", "unknown": 1}}):
        entry, _notes = keep_restrictions("x", {"command": "a", "mcphost": own}, {"command": "b"}, LIMITS)
        assert entry == {"command": "b"}
        new = {"command": "b", "mcphost": {"sampling": {}}}
        assert keep_restrictions("x", {"command": "a", "mcphost": own}, new, LIMITS)[0] == new
