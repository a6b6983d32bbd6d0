"""Tests of the translation of the lines that describe a server's entry or an installation plan."""

from collections.abc import Iterator

import pytest

from mcphost.config.description_lines import translate_line, translate_pair
from mcphost.translation import CHINESE, ENGLISH, set_language


@pytest.fixture(autouse=True)
def _chinese() -> Iterator[None]:
    set_language(CHINESE)
    yield
    set_language(ENGLISH)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("command: npx", "命令: npx"),
        ("environment PATH: /opt", "环境变量 PATH: /opt"),
        ("environment file: /tmp/.env", "环境变量文件: /tmp/.env"),
        ("file: /tmp/.mcp.json, as clock", "文件: /tmp/.mcp.json，名为 clock"),
        ("needs: npx (not installed)", "需要: npx（未安装）"),
        ("digest: sha512-abc", "摘要值: sha512-abc"),
        ("digest: unknown. It is being requested from npm or uv.", "摘要值: 未知。正在向 npm 或 uv 查询。"),
        (
            "digest: unknown. npm ended with code 1: npm error code ENOTFOUND.",
            "摘要值: 未知。npm 结束，代码为 1: npm error code ENOTFOUND。",
        ),
    ],
)
def test_the_label_is_translated_and_so_are_values_that_are_sentences(line: str, shown: str) -> None:
    assert translate_line(line) == shown


@pytest.mark.parametrize("mark", ["- ", "+ ", "  "])
def test_a_diff_mark_before_the_label_stays(mark: str) -> None:
    assert translate_line(f"{mark}command: npx") == f"{mark}命令: npx"


def test_a_line_with_another_label_is_shown_as_it_is() -> None:
    assert translate_line("commander: npx") == "commander: npx"


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("results: reviewed by you before the model gets them", ("结果", "先由你审阅，再交给模型")),
        ("never: exec: rm：-rf", ("从不", "exec: rm：-rf")),
    ],
)
def test_a_line_is_split_into_its_label_and_value_in_every_language(line: str, pair: tuple[str, str]) -> None:
    assert translate_pair(line) == pair
    set_language(ENGLISH)
    assert translate_pair(line) == tuple(line.split(": ", 1))
