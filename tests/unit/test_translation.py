"""Tests for the language of the user interface: how it is chosen, and that texts are translated when shown."""

import re
from collections.abc import Iterator

import pytest
from babel.messages.pofile import read_po

from mcphost.errors import ServerError
from mcphost.pluralize import translate_count
from mcphost.translation import (
    CHINESE,
    ENGLISH,
    N_,
    SENTENCE,
    SentencePatterns,
    _,
    choose_language,
    current_language,
    join_list,
    ngettext,
    set_language,
    translate_facts,
    translate_sentence,
)
from tests.translation.catalog import PO_FILE


@pytest.fixture(autouse=True)
def _restore_english() -> Iterator[None]:
    yield
    set_language(ENGLISH)


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, ENGLISH),
        ({"LANG": "C.UTF-8"}, ENGLISH),
        ({"LANG": "de_DE.UTF-8"}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8"}, CHINESE),
        ({"LANG": "zh_SG"}, CHINESE),
        ({"LANG": "zh"}, CHINESE),
        ({"LANG": "zh-Hans"}, CHINESE),
        ({"LANG": "zh_Hans_CN.UTF-8@pinyin"}, CHINESE),
        ({"LANG": "zh_TW.UTF-8"}, ENGLISH),
        ({"LANG": "zh_Hant_HK.UTF-8"}, ENGLISH),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, ENGLISH),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, CHINESE),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "", "LC_MESSAGES": "en_GB"}, ENGLISH),
    ],
)
def test_auto_follows_the_locale_of_the_environment(environ: dict[str, str], language: str) -> None:
    assert choose_language("auto", environ) == language
    assert choose_language("", environ) == language


def test_a_configured_language_takes_precedence_over_the_locale() -> None:
    assert choose_language("en", {"LANG": "zh_CN.UTF-8"}) == ENGLISH
    assert choose_language("zh-CN", {"LANG": "en_US.UTF-8"}) == CHINESE


def test_a_table_keeps_its_english_text_and_is_translated_when_it_is_shown() -> None:
    label = N_("Allow once")
    assert _(label) == "Allow once"
    set_language(CHINESE)
    assert label == "Allow once"
    assert _(label) == "允许一次"
    set_language(ENGLISH)
    assert _(label) == "Allow once"


def test_a_count_has_a_plural_in_english_and_none_in_chinese() -> None:
    shown = [ngettext("{count:,} tool", "{count:,} tools", count).format(count=count) for count in (1, 1200)]
    assert shown == ["1 tool", "1,200 tools"]
    set_language(CHINESE)
    assert [translate_count(count, "tool") for count in (1, 1200)] == ["1 个工具", "1,200 个工具"]


def test_text_without_a_translation_and_empty_text_stay_as_they_are() -> None:
    set_language(CHINESE)
    assert _("no text of the program") == "no text of the program"
    assert _("") == ""


def test_a_language_without_a_catalog_means_english() -> None:
    set_language("fr")
    assert current_language() == ENGLISH


def test_a_sentence_of_a_lower_layer_is_translated_with_its_values() -> None:
    error = ServerError("The server files did not answer in time.", "Check its log.")
    said = "The server files closed the connection."
    assert translate_sentence(said) == said
    set_language(CHINESE)
    assert str(error) == "The server files did not answer in time. Check its log.", "errors stay English"
    assert translate_sentence(said) == "服务器 files 关闭了连接。"
    assert translate_sentence("The server files offers no subscriptions. Check its log.") == (
        "服务器 files 不提供订阅。请检查其日志。"
    )


def test_the_end_of_a_server_is_translated_around_its_own_words() -> None:
    set_language(CHINESE)
    said = "Loading settings | config key 'db_url' is missing"
    shown = translate_sentence(f"The server 'x' (/bin/x) exited with status 1; it last said: {said}.")
    assert shown == f"服务器 'x'（/bin/x）以状态 1 结束，最后的输出：{said}。"
    shown = translate_sentence("The server 'x' (x) was ended by SIGKILL. Its error output is in /tmp/a.log")
    assert shown == "服务器 'x'（x）被 SIGKILL 终止。其错误输出在 /tmp/a.log"


def test_the_reason_for_another_place_of_secrets_is_translated() -> None:
    set_language(CHINESE)
    reason = "its entry has a secret, and no keyring can store it"
    assert translate_sentence(reason) == _(reason) != reason


def test_values_that_are_sentences_are_translated_too() -> None:
    patterns = SentencePatterns({"It was not read. {why}": "未读取。{why}", "{file} is gone.": "{file} 不见了。"})
    assert patterns.translate("It was not read. a.zip is gone.") == "未读取。a.zip 不见了。"


@pytest.mark.parametrize("reason", ["model 'nosuch' not found.", "It is gone. Pull it. Or do not."])
def test_a_template_does_not_swallow_the_next_sentence_if_another_one_fits_both(reason: str) -> None:
    patterns = SentencePatterns(
        {
            "The server does not know {model}.": "服务器不认识 {model}。",
            "{text} The provider said: {why}": "{text}提供商说：{why}",
        }
    )
    sentence = f"The server does not know a/nosuch. The provider said: {reason}"
    assert patterns.translate(sentence) == f"服务器不认识 a/nosuch。提供商说：{reason}"


def test_the_template_with_the_longest_fixed_text_is_used() -> None:
    patterns = SentencePatterns({"{a} is {b}.": "{a}：{b}", "{a} is over {b} kB.": "{a} 超过 {b} kB。"})
    assert patterns.translate("x is over 3 kB.") == "x 超过 3 kB。"
    assert patterns.translate("x is new.") == "x：new"


def test_braces_and_fields_in_the_words_of_a_server_are_text() -> None:
    patterns = SentencePatterns({"Tool {tool} failed.": "工具 {tool} 失败。", 'Write {{"a": 1}}.': '写 {{"a": 1}}。'})
    assert patterns.translate("Tool {0.__class__} failed.") == "工具 {0.__class__} 失败。"
    assert patterns.translate('Write {"a": 1}.') == '写 {"a": 1}。'


def test_only_the_first_sentences_of_a_text_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    set_language(CHINESE)
    compared: list[str] = []
    monkeypatch.setattr(SentencePatterns, "translate", lambda patterns, text: compared.append(text) or text)
    text = "a. " * 300
    assert translate_sentence(text) == text
    assert len(compared) < 20


def test_text_that_is_too_long_for_a_sentence_is_not_compared() -> None:
    patterns = SentencePatterns({"{a} is {b}.": "{a}：{b}"})
    text = "x" * 2_000 + " is long."
    assert patterns.translate(text) == text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "2 messages of this conversation could not be saved, because its store cannot be written.",
            "此对话有2 条消息",
        ),
        ("1 message of this conversation could not be saved, because its store cannot be written.", "此对话有1 条消息"),
        ("The audit log /a lost 1,200 rows that could not be written.", "审计日志 /a 有1,200 行无法写入"),
        ("Nobody signed in to 'hub' within 5 minutes.", "在 5 分钟内没有人登录 'hub'"),
        ("The conversation store /a/b failed: disk I/O error.", "对话存储 /a/b 出错：disk I/O error。"),
        ("Nothing will be saved: the audit log /a cannot be written (Read-only file system).", "不会保存任何内容"),
        ("The disk is full: the conversation store /a cannot be written.", "磁盘已满"),
        ("No keyring service is responding.", "没有密钥环服务响应。"),
    ],
)
def test_counts_and_names_of_stores_in_sentences_are_translated(said: str, shown: str) -> None:
    set_language(CHINESE)
    assert translate_sentence(said).startswith(shown)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "/p/hooks.toml has changed since you approved it. The version that you approved stays in effect. "
            "To review the change, start the chat in this project.",
            "/p/hooks.toml 自你批准后已被更改。",
        ),
        (
            "The hooks that you approved in /p/hooks.toml are not used: the file is missing, "
            "or the project's folder is another one now.",
            "你在 /p/hooks.toml 中批准的钩子未被使用",
        ),
        (
            "The project's hooks file is missing, or is not approved as it is now. "
            "The hooks approved before stay in effect until you quit.",
            "项目的钩子文件缺失",
        ),
    ],
)
def test_notices_about_changed_hooks_are_translated(said: str, shown: str) -> None:
    set_language(CHINESE)
    assert translate_sentence(said).startswith(shown)


def test_a_number_with_an_unknown_noun_is_text() -> None:
    patterns = SentencePatterns({"It has {what}.": "它有 {what}。"}, {"tool": "{number:,} 个工具"})
    assert patterns.translate("It has 2 tools.") == "它有 2 个工具。"
    assert patterns.translate("It has 2 {tools}.") == "它有 2 {tools}。"
    assert patterns.translate("It has 2 things.") == "它有 2 things。"


@pytest.mark.parametrize(
    ("why", "shown"),
    [
        ("2 of its tools are not what you saw before", "它的 2 个工具不是你先前见过的样子"),
        ("one of its tools is back to what you saw, after a change in between", "它的一个工具又是你见过的样子"),
        ("it is configured in /a/mcp.json and changed since you approved it", "在你批准后已更改"),
        ("it is configured in /a/mcp.json and was not approved yet", "尚未批准"),
    ],
)
def test_the_reason_to_review_a_server_is_translated(why: str, shown: str) -> None:
    set_language(CHINESE)
    assert shown in translate_sentence(why)


def test_a_list_for_a_person_has_the_separator_of_the_language() -> None:
    assert join_list(["a", "b"]) == "a, b"
    assert translate_facts("tools, prompts") == "tools, prompts"
    set_language(CHINESE)
    assert join_list(["a", "b"]) == "a、b"
    assert ", " not in translate_facts("tools, prompts")


def test_adjacent_fields_of_a_sentence_stay_adjacent_in_its_translation() -> None:
    # Nothing shows where the first one's value ends, so that only both values together are known.
    with PO_FILE.open("rb") as file:
        known = [(one.id, one.string) for one in read_po(file) if one.context == SENTENCE]
    pairs = [(pair, shown) for text, shown in known for pair in re.findall(r"\{\w+\}\{\w+\}", str(text))]
    assert pairs
    assert [(pair, shown) for pair, shown in pairs if pair not in str(shown)] == []


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "Did you mean 'path'? To send any name, write all arguments as one JSON object.",
            "你是不是想写 'path'？要发送任意名称，请把所有参数写成一个 JSON 对象。",
        ),
        (
            "Its arguments: 'x', and 3 more. To send any name, give the arguments as JSON to --args.",
            "它的参数：'x'，另有 3 个。要发送任意名称，请用 --args 以 JSON 形式给出参数。",
        ),
        ("There is no conversation yet except those of mcphost run.", "除 mcphost run 的对话外还没有对话。"),
    ],
)
def test_hints_about_misspelt_names_and_missing_conversations_are_translated(said: str, shown: str) -> None:
    set_language(CHINESE)
    assert translate_sentence(said) == shown


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("The content block is not valid: Expected `str`, got `int` - at `$.text`", "`$.text` 应为 `str`，实为 `int`"),
        (
            "The result of tools/list is not valid: JSON is malformed: no end (byte 3)",
            "tools/list 的结果无效：JSON 格式错误：",
        ),
        (
            "The params object of tasks/get is not valid: Object missing required field `taskId`",
            "tasks/get 的 params 对象",
        ),
        ("127.0.0.1 port 9, 3 ms", "127.0.0.1 的端口 9，3 毫秒"),
        ("Nothing listens at 127.0.0.1 port 9: the connection was refused.", "没有程序在 127.0.0.1 的端口 9 监听"),
        ("::1 port 9 did not answer within 5 s.", "::1 的端口 9 在 5 秒内没有应答。"),
    ],
)
def test_names_of_invalid_data_and_ports_are_translated_within_a_sentence(english: str, chinese: str) -> None:
    set_language(CHINESE)
    shown = translate_sentence(english)
    assert chinese in shown
    assert " port " not in shown
    assert "is not valid" not in shown


def test_something_with_the_name_none_keeps_its_name_in_a_hint() -> None:
    set_language(CHINESE)
    assert translate_sentence("Inputs: none.") == "输入：none。"
    assert translate_sentence("It has no inputs.") == "它没有输入。"
