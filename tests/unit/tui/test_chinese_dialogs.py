"""Tests for dialog texts in Chinese: the program never compares or counts translated words."""

from collections.abc import Iterator

import pytest

from mcphost.translation import CHINESE, ENGLISH, set_language
from mcphost.tui.dialogs.call_view import render_call


@pytest.fixture(autouse=True)
def _chinese() -> Iterator[None]:
    set_language(CHINESE)
    yield
    set_language(ENGLISH)


def test_an_edited_call_says_how_many_arguments_were_changed_added_and_removed() -> None:
    view = render_call({"a": 2, "new": 1}, {"a": 1, "old": 1})
    assert view.changes == "1 已改、1 新增、1 删除"
