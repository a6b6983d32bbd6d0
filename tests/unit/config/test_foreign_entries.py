"""Tests for the settings that are left out of an entry that somebody else wrote."""

from typing import Any

import pytest

from mcphost.config.foreign_entries import drop_reserved_settings


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
