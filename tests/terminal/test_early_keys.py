"""Tests on a terminal that letters answer no question that was not entered, or right after another key."""

from typing import Any

import pytest

from mcphost.tui.dialogs.tool_consent import ToolConsentDialog
from mcphost.tui.dialogs.trust import TrustServerDialog
from tests.flows.consent_attacks.attack import attack_tool
from tests.terminal.dialog_user import DialogUser

ADD: dict[str, Any] = attack_tool("add") | {
    "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
}
TRUST = "Use the server peer?"
RUN = "Run peer · add?"


@pytest.fixture
def asked(user: DialogUser) -> DialogUser:
    """A user who started the chat and sees the question whether to trust a server, without having entered it."""
    user.write_config("", peer=user.hostile_server("peer", ADD))
    user.terminal.start_chat("--model", "demo")
    user.terminal.wait_until(user.dialog_matcher(TrustServerDialog, [TRUST]), "the question")
    return user


@pytest.mark.timeout(240)
def test_a_letter_does_not_answer_a_question_that_was_not_entered(asked: DialogUser) -> None:
    for key in ("End", "s"):  # if the question were entered, they would trust the server once
        asked.terminal.wait_between_keys()
        asked.terminal.press(key)
    asked.press_through(TrustServerDialog, TRUST, key="Escape")
    asked.expect_answers(0, "trust deny")


@pytest.mark.timeout(240)
def test_a_letter_right_after_another_key_does_not_answer_a_question(asked: DialogUser) -> None:
    asked.expect_acceptance(TrustServerDialog, asked.no_action, TRUST, keys=["End", "s"], answers=["trust once"])
    asked.wait_for_servers()
    effects, answers = asked.marks
    asked.type_message("call add a=2 b=40")
    asked.terminal.press("Enter")
    asked.wait_for_dialog(ToolConsentDialog, RUN)
    asked.terminal.press("Tab", "a")  # the program reads both at once
    asked.press_through(ToolConsentDialog, RUN, key="Escape")
    asked.expect_answers(answers, "tool deny")
    assert asked.effects(effects) == []
