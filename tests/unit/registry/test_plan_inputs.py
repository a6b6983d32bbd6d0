"""Tests for the reasons why a value for an installed server is refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from mcphost.errors import UsageError
from mcphost.registry.plan_inputs import MAX_VALUE_LENGTH, PlanInput, check_value, check_values
from mcphost.translation import CHINESE, ENGLISH, set_language, translate_sentence


@pytest.fixture
def chinese() -> Iterator[None]:
    set_language(CHINESE)
    yield
    set_language(ENGLISH)


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("options", "value", "reason"),
    [
        ({}, "x" * (MAX_VALUE_LENGTH + 1), "超过"),
        ({}, "\x1b", "含有控制字符或不可见字符。"),
        ({"is_host_path": True}, "", "的值为空。"),
        ({"choices": ("a", "b")}, "c", "不是以下任何一个：a, b。"),
        ({"format": "number"}, "x", "的值不是数字。"),
        ({"format": "number", "minimum": 2.0}, "1", "的值小于 2。"),
        ({"format": "number", "maximum": 2.0}, "3", "的值大于 2。"),
        ({"format": "boolean"}, "x", "不是 true 或 false。"),
    ],
)
def test_the_reason_is_in_the_language_of_the_user(options: dict[str, Any], value: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_value(PlanInput(name="UNIT", place="environment", **options), value)
    shown = translate_sentence(refused.value.message)
    assert shown.startswith("UNIT 的值")
    assert reason in shown


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(("place", "named"), [("argument", "命令"), ("address", "地址")])
def test_the_place_of_a_refused_secret_is_in_the_language_of_the_user(place: Any, named: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_values([PlanInput(name="TOKEN", place=place, is_secret=True)], {"TOKEN": ("x",)})
    assert named in translate_sentence(refused.value.message)
