"""Tests for the hints about servers that failed."""

from pathlib import Path

import pytest

from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import expand_target
from mcphost.errors import ConfigError, StartupError
from mcphost.host.events import ServerState
from mcphost.host.servers.status import WATCHED_HINT
from mcphost.translation import CHINESE, ENGLISH, set_language
from mcphost.transport.process import find_command
from mcphost.tui.chat.server_notices import ServerNotices
from mcphost.tui.key_table import build_key_table
from mcphost.tui.transcript.blocks import NoticeBlock


def notices(hint: str) -> list[str]:
    """Return the hint that the chat shows for a failed server with *hint*."""
    shown: list[str] = []
    reporter = ServerNotices(lambda level, text, hint="": shown.append(hint))
    reporter.report(ServerState("peer", "failed", "It failed.", hint), build_key_table({})[0])
    return shown


def test_a_missing_variable_is_not_answered_with_the_key_that_restarts_the_server() -> None:
    hint = "Set WKEY and start mcphost again, or write a default: ${WKEY:-VALUE}."
    with pytest.raises(ConfigError) as exc_info:
        expand_target(ServerConfig(name="peer", command="x", args=("${WKEY}",), source="flag"), {})
    assert exc_info.value.hint == hint
    assert notices(hint) == [hint]


def test_another_failure_is_answered_with_the_key_that_restarts_the_server() -> None:
    assert notices("Check its log.")[0].endswith("to restart it. Check its log.")


def test_a_failure_of_a_server_with_watched_files_is_answered_with_saving_one() -> None:
    assert notices(f"{WATCHED_HINT} Check its log.") == [f"{WATCHED_HINT} Check its log."]


def test_sentences_of_a_chinese_notice_have_no_space_between_them() -> None:
    set_language(CHINESE)
    try:
        (hint,) = notices("Its error output is in /tmp/a.log")
    finally:
        set_language(ENGLISH)
    assert hint.endswith("重新启动它。其错误输出在 /tmp/a.log")
    notice = NoticeBlock("error", "失败。", hint)
    assert notice.copy_text() == f"失败。{hint}"
    assert notice.render(80)[0].content.plain == f"失败。{hint}"


def test_a_relative_command_that_does_not_exist_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=f"'./notes.sh' is relative, and there is no {tmp_path}/notes.sh"):
        find_command("./notes.sh", {}, str(tmp_path))
