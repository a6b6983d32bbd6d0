"""Tests for formatting numbers for users."""

import pytest

from mcphost.pluralize import format_countdown, format_duration


@pytest.mark.parametrize(("seconds", "text"), [(0.9, "0 s"), (59.9, "59 s"), (185, "3 min 5 s"), (7_860, "2 h 11 min")])
def test_a_duration_is_shown_in_at_most_two_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(65.4, "1:05"), (0, "0:00"), (-3, "0:00"), (3_600, "60:00")])
def test_the_time_that_is_left_is_shown_in_minutes_and_seconds(seconds: float, text: str) -> None:
    assert format_countdown(seconds) == text
