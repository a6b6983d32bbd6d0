"""Tests for Chinese messages from lower layers: translated on the screen, and stored in English."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from mcphost.auth.accounts import DiscoverySummary
from mcphost.config.schema import HostConfig, ModelConfig
from mcphost.errors import UsageError
from mcphost.host.audit.answer_summary import ANSWER_LABELS
from mcphost.host.audit.audit_labels import (
    DECISION_LABELS,
    EVENT_LABELS,
    KIND_LABELS,
    SOURCE_LABELS,
    decision_label,
    event_label,
)
from mcphost.host.config_changes import ConfigChanges
from mcphost.host.questions.form_fields import Field, validate_content
from mcphost.host.questions.questions import ApproveTool, FillForm
from mcphost.host.questions.sign_in import OPENED, SignInQuestion, describe_scope
from mcphost.host.questions.tool_changes import ReviewToolChanges, ToolChange
from mcphost.host.servers.accounts import describe_discovery, describe_validity
from mcphost.host.servers.definition_diff import REVERTED_NOTE, diff_definitions
from mcphost.host.tools.tool_outcome import UNSENT_TEXT
from mcphost.sandbox import schema_worker
from mcphost.serialization import encode, replace
from mcphost.store.audit_reader import AuditFilter
from mcphost.translation import CHINESE, ENGLISH, _, set_language, translate_sentence
from mcphost.tui.dialogs.edit_arguments import translate_violation
from mcphost.tui.screens import help as help_screen
from mcphost.tui.screens.help import render_help
from mcphost.tui.transcript.blocks import SpeakerHeading, label_model
from mcphost.tui.transcript.tool_card import ToolCard
from tests.fakes.clock import ManualClock
from tests.screens.ask_question import PendingQuestion, open_argument_editor, tool_question, trust_question
from tests.screens.conftest import Run
from tests.screens.example_questions import SAMPLING
from tests.screens.example_records import (
    create_example_audit_log,
    example_account,
    example_accounts,
    example_audit_records,
    example_grants,
)
from tests.screens.fake_host import sample_server

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _speak_chinese() -> Iterator[None]:
    set_language(CHINESE)
    yield
    set_language(ENGLISH)


def http_server(**more: Any) -> Any:
    one = sample_server("hub", **more)
    return replace(one, config=replace(one.config, command="", args=(), url="https://hub.example/mcp"))


async def test_an_account_is_described_in_chinese(run: Run) -> None:
    status = "waiting for you; a response with a missing or wrong state was ignored"
    async with run(views=(http_server(sign_in_status=status),), size=(120, 40)) as driver:
        driver.host.accounts.kept = example_accounts()[:2]
        await driver.pilot.press("f12")
        await driver.until(lambda: "读取 issues (issues:read)、repo" in driver.text(), "the scopes")
        for words in (
            "使用中 · 自动续期",
            "https://login.example、自动注册",
            "在密钥环中",
            "正在等你；已忽略一个 state",
        ):
            assert words in driver.text()


async def test_a_sign_in_is_described_in_chinese(run: Run) -> None:
    scopes = ("read:org", "admin", "offline_access", "{0.__class__}:read")
    asked = SignInQuestion(
        server="hub", why="", url="https://a.example", host="a.example", issuer="https://a.example", scopes=scopes,
        note=OPENED,
    )  # fmt: skip
    async with run(size=(120, 40)) as driver:
        PendingQuestion(driver, asked)
        await driver.enter_question()
        for words in ("读取 org  (read:org)", "全部内容  (admin)", "在你离开时保持登录  (offline", "已在浏览器中打开"):
            assert words in driver.text()
        assert "\n" not in describe_scope("{0.__class__}:read", _)


def test_the_discovery_results_of_a_sign_in_are_described_in_chinese() -> None:
    account = example_account(discovery=DiscoverySummary(metadata_kind="legacy"), is_renewable=False, expires=9_000.0)
    found = dict(describe_discovery(account, _))
    assert found == {
        "服务器元数据": "无",
        "颁发者元数据": "无：使用 2025-03-26 的默认地址",
        "客户端身份": "自动注册",
        "它支持": "未声明 PKCE; 响应中不带颁发者; 无设备代码",
    }
    assert [describe_validity(account, now, _) for now in (0, 8_900)] == ["还有 2 小时", "还有 1 分钟"]
    assert describe_validity(account, 0) == "for 2 more hours", "programs read English"


async def test_the_changes_of_a_server_are_described_in_chinese(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(
            driver,
            trust_question(
                command=("npx", "clock"),
                changed=("- command: node", "+ command: npx"),
                restrictions=("results: reviewed by you before the model gets them", "disabled tool: set_time"),
            ),
        )
        await driver.enter_question()
        assert "- 命令: node" in driver.text()
        assert "+ 命令: npx" in driver.text()
        assert "disabled tool" not in driver.text()
        assert re.search(r"结果 +先由你审阅", driver.text())
        await driver.pilot.press("escape")


async def test_the_errors_of_a_form_are_in_chinese(run: Run) -> None:
    fields = (
        Field(name="name", kind="text", required=True, min_length=3),
        Field(name="mail", kind="text", format="email"),
        Field(name="kind", kind="text", pattern="^{0.__class__}$"),
    )
    asked = FillForm(server="hub", why="", message="Who?", fields=fields)
    async with run(size=(120, 40)) as driver:
        PendingQuestion(driver, asked)
        dialog = await driver.enter_question()
        await driver.pilot.press("tab", "a", "tab", "b", "tab", "c")
        await driver.until(lambda: "必须是电子邮件地址" in driver.text(), "the format")
        assert "至少需要 3 个字符" in driver.text()
        await dialog.form.set_values({"name": None, "mail": None, "kind": None})
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "✗ 必填" in driver.text(), "that the name is missing")
    problem = "must match the pattern ^{0.__class__}$"
    assert translate_sentence(problem).endswith(" ^{0.__class__}$"), "text of a server is no format string"


def test_the_errors_in_a_form_as_json_are_in_chinese() -> None:
    fields = (Field(name="name", kind="text", required=True), Field(name="on", kind="boolean"))
    with pytest.raises(UsageError) as found:
        validate_content(fields, {"on": 1, "off": 2}, translate_sentence)
    shown = "表单中有无效的值：没有字段 'off'; 'name' 必填; 'on' 必须是 true 或 false。"
    assert translate_sentence(found.value.message) == shown
    with pytest.raises(UsageError, match="there is no field 'off'; 'name' is required; 'on' must be true or false"):
        validate_content(fields, {"on": 1, "off": 2})


async def test_audit_rows_are_shown_in_chinese_and_stored_in_english(run: Run, tmp_path: Path) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, example_audit_records())
        await driver.pilot.press("f10")
        await driver.until(lambda: "工具：失败" in driver.text(), "the newest row")
        for words in ("工具：已拒绝", "服务器：正在启动", "read_file · 你", "create_issue"):
            assert words in driver.text()
        assert {row.event for row in await driver.host.audit.read_page(AuditFilter())} >= {"answered", "ended"}
        await driver.host.audit.close()


def test_each_label_of_an_audit_row_is_translated() -> None:
    known = {**KIND_LABELS, **EVENT_LABELS, **DECISION_LABELS, **SOURCE_LABELS}
    assert set(ANSWER_LABELS.values()) <= known.keys()
    assert [label for label in known.values() if _(label) == label] == []
    assert decision_label("not sent again: its grant was revoked") == "未再次发送: 其授权已撤销"
    assert decision_label("2 folders") == "2 个文件夹"
    assert decision_label("myEnd: {0}") == "myEnd: {0}", "a word of a server"
    assert event_label("tool", "answered", "once, edited") == "工具：编辑后允许一次"


async def test_a_place_in_the_arguments_and_its_error_are_joined_in_chinese(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        await open_argument_editor(driver)
        row = next(row for row in driver.app.screen.form.rows if row.field.name == "sort")
        row.field_widget.text = '[{"by": 5}]'
        await driver.until(lambda: "/0/by：" in driver.text(), "what is wrong")


def test_violations_of_a_schema_are_translated_without_their_values() -> None:
    schema = {"type": "object", "required": ["path"], "properties": {"{0}": {"type": "integer"}, "n": {"maximum": 3}}}
    found = schema_worker.validate(jsonschema_rs, encode(schema), encode({"{0}": "{a} was expected", "n": 4}))
    shown = sorted(translate_violation(message) for _path, message in found["faults"])
    assert shown == ['"path" 是必需的属性', '"{a} was expected" 的类型不是 "integer"', "4 大于最大值 3"]
    assert translate_violation("Something else.") == "Something else."
    set_language(ENGLISH)
    assert translate_violation("4 is greater than the maximum of 3") == "4 is greater than the maximum of 3"


async def test_chinese_beside_an_english_word_fills_the_row_of_a_dialog(run: Run) -> None:
    asked = SignInQuestion(server="hub", why="", url="https://a.example", host="a.example", issuer="https://a.example")
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, asked)
        await driver.enter_question()
        row = next(line for line in driver.text().splitlines() if "看不到你的密码" in line)
        assert "mcphost 看不到你的密码。" in row
        following = next(line for line in driver.text().splitlines() if "再粘贴" in line or "贴最后的地址" in line)
        assert following.strip("│ ")[:1] not in "，。；"


async def test_the_search_of_the_audit_screen_finds_the_words_that_it_shows(run: Run, tmp_path: Path) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.audit = create_example_audit_log(tmp_path, example_audit_records())
        await driver.pilot.press("f10")
        await driver.until(lambda: "工具：失败" in driver.text() and "服务器：正在启动" in driver.text(), "all rows")
        for typed, shown, hidden in (
            ("工具：失败", "工具：失败", "服务器：正在启动"),
            ("服务器：", "服务器：正在启动", "工具：失败"),
            ("你 已拒绝", "工具：已拒绝", "服务器：正在启动"),
            ("ended FAILED", "工具：失败", "服务器：正在启动"),
            ("create_issue 失败", "工具：失败", "服务器：正在启动"),
        ):
            driver.app.screen.query_one("#search").value = typed
            await driver.until(lambda h=hidden: h not in driver.text(), f"only what matches {typed}")
            assert shown in driver.text(), typed
            driver.app.screen.query_one("#search").value = ""
            await driver.until(lambda h=hidden: h in driver.text(), "all rows again")
        await driver.host.audit.close()


@pytest.mark.parametrize("keys", ["f3", "f3 t", "f5", "f7", "f12"])
async def test_the_search_of_a_list_finds_each_word_that_is_shown_in_a_row(run: Run, keys: str) -> None:
    async with run(views=(http_server(), sample_server("files")), size=(120, 40)) as driver:
        driver.host.accounts.kept = example_accounts()
        driver.host.grants.given = example_grants()
        await driver.pilot.press(*keys.split())
        await driver.until(lambda: driver.app.screen.visible_rows, "a row")
        screen = driver.app.screen
        for row in list(screen.visible_rows):
            for word in re.findall(r"\w{2,}", screen.render_row(row).plain):
                screen.filter(word)
                assert row in screen.visible_rows, f"{word!r} of {row.title!r}"


async def test_the_command_palette_finds_a_chinese_and_an_english_word(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        for word in ("审计", "audit"):
            await driver.pilot.press("ctrl+p")
            await driver.until(lambda: driver.app.screen.query("CommandInput"), "the palette")
            driver.app.screen.query_one("CommandInput").value = word
            await driver.until(lambda: driver.app.screen.query_one("CommandList").option_count in range(1, 8), "hits")
            assert "审计" in driver.text()
            await driver.pilot.press("escape")


async def test_a_note_about_a_search_of_conversations_is_in_chinese(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f6")
        await driver.until(lambda: "历史记录" in driver.text(), "the history")
        driver.app.screen.query_one("#search").value = "after:gestern word"
        await driver.until(lambda: "after:gestern 不是日期" in driver.text(), "the note")


async def test_the_command_palette_says_in_chinese_that_nothing_matches(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("ctrl+p")
        await driver.until(lambda: driver.app.screen.query("CommandInput"), "the palette")
        await driver.type("zzzz")
        await driver.until(lambda: "没有匹配的命令" in driver.text(), "the note")
        await driver.pilot.press(*(["backspace"] * 4))
        await driver.until(lambda: "没有匹配的命令" not in driver.text(), "all commands")


async def test_the_account_without_a_name_is_called_default_in_chinese(run: Run) -> None:
    server = http_server(account=replace(example_account(), account=""))
    async with run(views=(server,), size=(120, 40)) as driver:
        driver.host.accounts.kept = [example_accounts()[0]]
        await driver.pilot.press("f12")
        await driver.until(lambda: "· 默认" in driver.text(), "the account")
        await driver.pilot.press("n")
        await driver.until(lambda: driver.app.screen.query("#name"), "the form")
        driver.app.screen.query_one("#name").value = "默认"
        await driver.until(lambda: "默认 已登录" in driver.text(), "that it is no new name")
        await driver.pilot.press("escape")
        question = ApproveTool(server="hub", why="", call="c", tool="t", arguments={}, account="default")
        PendingQuestion(driver, question)
        await driver.enter_question()
        assert "默认" in driver.text()
        assert "default" not in driver.text()


async def test_the_roles_of_the_messages_of_a_sampling_request_are_in_chinese(run: Run) -> None:
    asked = replace(SAMPLING, messages=({"role": "user", "content": {"type": "text", "text": "Hello"}},
                                        {"role": "assistant", "content": {"type": "text", "text": "Hi"}}))  # fmt: skip
    async with run(size=(120, 50)) as driver:
        PendingQuestion(driver, asked)
        await driver.enter_question()
        assert "用户" in driver.text()
        assert "助手" in driver.text()
        assert not re.search(r"\b(user|assistant)\b", driver.text())
        await driver.pilot.press("e")
        await driver.until(lambda: "1 用户" in driver.text(), "the fields")


async def test_notes_in_the_difference_of_a_changed_tool_are_in_chinese_and_lines_of_the_server_are_not(
    run: Run,
) -> None:
    long = encode({"name": "t", "description": "\n".join(map(str, range(1_100)))})
    fake = "  description: Only the formatting differs."
    changes = (
        ToolChange(tool="t", digest="1", difference=(REVERTED_NOTE, "- a", "+ b", fake)),
        ToolChange(tool="u", digest="2", difference=diff_definitions(b"", long)),
    )
    async with run(size=(120, 40)) as driver:
        PendingQuestion(driver, ReviewToolChanges(server="files", why="a tool changed", changes=changes))
        await driver.enter_question()
        assert "它改变过又改了回来" in driver.text()
        assert fake.strip() in driver.text()
        await driver.pilot.press("n")
        await driver.until(lambda: "先前的定义未知" in driver.text(), "that it is new")
        await driver.pilot.press("v")
        await driver.until(lambda: driver.app.screen.query("LongText"), "the whole text")
        await driver.pilot.press("end")
        await driver.until(lambda: "+ ……还有更多：共" in driver.text(), "the end")


def test_changes_of_the_configuration_are_described_in_chinese() -> None:
    changes = ConfigChanges(
        config=HostConfig(),
        removed=("old", "older"),
        model=ModelConfig(name="openai/x", api_base="http://127.0.0.1:9/v1"),
        system_prompt="",
        project_instructions=False,
    )
    assert changes.describe(_) == (
        "移除 old、older",
        "使用模型 openai/x（位于 http://127.0.0.1:9/v1）",
        "另一个系统提示词",
        "不再使用项目的说明",
    )


def test_a_declined_call_and_the_names_of_capabilities_are_translated() -> None:
    card = ToolCard("call-1", "demo", "add", {})
    card.finish("declined", "Declined.", 0)
    shown = "\n".join(row.content.plain for row in card.render(80))
    assert "Declined" not in shown
    assert translate_sentence("Declined.") in shown
    assert _("completions") != "completions"
    assert _("logging") != "logging"


@pytest.mark.parametrize("level", ["info", "warning", "error"])
async def test_a_notice_for_a_screen_reader_loses_no_character_at_the_end_of_a_row(run: Run, level: str) -> None:
    text = "".join(chr(0x4E00 + number) for number in range(120))
    async with run(reader=True, size=(80, 24)) as driver:
        driver.app.chat.presenter.add_notice(level, text)
        await driver.until(lambda: text[-1] in driver.text(), "the notice")
        shown = "".join(driver.text().split())
        assert [one for one in text if one not in shown] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "you called it; the hook sh -c 'x y' changed its arguments, in another conversation",
        "files · write: The hook sh -c 'x y' changed the arguments",
        "files · write: The hook sh -c 'x y' says: 12",
        "files · write: The hook sh -c 'x y' withheld the result: 12.",
        "files · write: The hook sh -c 'x y' could not be run: The command 'x' was not found.",
        "files · write: The hook sh -c 'x y' could not be run: 12 cannot be opened: No such file or directory.",
        "files · write: The hook sh -c 'x y' failed: it did not end within 0.5 s.",
        "files · write: The hook sh -c 'x y' failed: it exited with status 1: 12.",
        "files · write: The hook sh -c 'x y' failed: it exited with status 1.",
        "files · write: The hook sh -c 'x y' failed: it answered '1': a hook can deny or continue, never allow.",
        "files · write: The hook sh -c 'x y' withheld the result: it failed: it did not print JSON.",
        "The hook sh -c 'x y' could not be run, so the call was refused: The command '1' was not found.",
        "The hook sh -c 'x y' failed, so the call was refused: it printed more than 1 MB. Correct the hook.",
        "The hook sh -c 'x y' declined it: no reason given",
        "The hook sh -c 'x y' declined it: 12. Change the arguments or the hook.",
        "The hook sh -c 'x y' declined it: 12.",
        "The model is still answering. Press Esc to stop it first.",
        "The model gets 3 of 13 tools. Disable servers that this conversation does not need.",
    ],
)
def test_what_hooks_did_and_what_hinders_a_new_conversation_is_translated(sentence: str) -> None:
    shown = translate_sentence(sentence).replace("sh -c 'x y'", "").replace("files · write", "").replace("Esc", "")
    assert re.search("[a-z]{2}", shown) is None


@pytest.mark.parametrize("width", [60, 80])
async def test_the_help_is_wrapped_to_the_window_when_it_opens(
    run: Run, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    widths: list[int] = []

    def render(width: int = 100, *rest: Any) -> Any:
        widths.append(width)
        return render_help(width, *rest)

    monkeypatch.setattr(help_screen, "render_help", render)
    async with run(size=(width, 24)) as driver:
        await driver.pilot.press("f1")
        await driver.until(lambda: isinstance(driver.app.screen, help_screen.HelpScreen), "the help")
        assert set(widths) == {width - 5}


async def test_the_notice_that_no_question_waits_is_removed_by_a_question_in_chinese(
    run: Run, clock: ManualClock
) -> None:
    async with run(size=(120, 40), notifications=True) as driver:
        await driver.pilot.press("f8")
        await driver.until(lambda: driver.has_notified("没有等待的问题。"), "the notice")
        await driver.type("x")
        PendingQuestion(driver, tool_question())
        await driver.until(lambda: bool(driver.app.screen.query("QuestionCard")), "the card")
        assert not driver.has_notified("没有等待的问题。")


def test_a_call_that_was_stopped_and_the_name_of_the_demo_model_are_translated() -> None:
    card = ToolCard("1", "files", "read", {})
    card.finish("stopped", UNSENT_TEXT, 0)
    assert "在运行之前已停止" in "".join(piece.content.plain for piece in card.render(80))
    heading = SpeakerHeading("x", label_model("demo"))
    assert "演示（不是 AI）" in heading.render(80)[0].content.plain


def test_the_rounds_of_a_turn_are_counted_in_chinese() -> None:
    assert translate_sentence("turn 3 used 1 round of tool calls") == "第 3 轮对话用了 1 轮工具调用"
    assert translate_sentence("turn 3 used 25 rounds of tool calls") == "第 3 轮对话用了 25 轮工具调用"
