"""Tests for formatting stored timestamps, which may be damaged."""

from datetime import datetime
from typing import Any

import pytest

from mcphost.local_time import format_moment, local_moment
from mcphost.tui.transcript.message_blocks import format_time


def test_a_timestamp_is_shown_as_local_time_to_the_minute() -> None:
    moment = datetime(2026, 11, 28, 9, 5).astimezone()
    assert format_moment(moment.timestamp()) == "2026-11-28 09:05"
    assert format_time(moment.timestamp()) == "09:05"


@pytest.mark.parametrize("seconds", [0, 1e300, -1e18, float("nan"), float("inf"), "x"])
def test_an_unknown_or_invalid_timestamp_is_shown_as_nothing(seconds: Any) -> None:
    assert local_moment(seconds) is None
    assert format_moment(seconds) == format_time(seconds) == ""
