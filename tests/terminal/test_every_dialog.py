"""Tests for every dialog of the real program: Escape refuses it, and keys typed ahead never answer it."""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from textual.screen import ModalScreen

import mcphost.tui.dialogs
import mcphost.tui.screens
from mcphost.tui.dialogs.edit_arguments import CallToolDialog, EditArgumentsDialog
from mcphost.tui.dialogs.fill_form import FillFormDialog
from mcphost.tui.dialogs.review_result import ReviewResultDialog
from mcphost.tui.dialogs.review_sampling import ReviewSamplingDialog
from mcphost.tui.dialogs.review_sampling_reply import ReviewReplyDialog
from mcphost.tui.dialogs.rule_builder import RuleBuilderDialog
from mcphost.tui.dialogs.share_roots import SharePerServerDialog, ShareRootsDialog
from mcphost.tui.dialogs.tool_consent import ContinueTurnDialog, ToolConsentDialog
from mcphost.tui.dialogs.tools_changed import ReviewToolChangesDialog
from mcphost.tui.dialogs.trust import TrustServerDialog
from mcphost.tui.dialogs.visit_url import RetryCallDialog, VisitUrlDialog
from mcphost.tui.dialogs.waiting_calls import WaitingCallsDialog
from tests.flows import roots_server
from tests.flows.consent_attacks.attack import attack_tool
from tests.flows.consent_attacks.changes import LIST_CHANGED
from tests.flows.consent_attacks.server_requests import (
    ROOTS,
    URL,
    attack_form_request,
    attack_sampling_request,
    attack_url_request,
)
from tests.terminal.dialog_coverage import driven_dialogs, drives_dialogs, terminal_tests
from tests.terminal.dialog_user import DialogUser

ONLY_ON_SCREEN = {
    "ApproveCostDialog": "tests/screens/test_approve_cost.py",
    "EntryCheckScreen": "tests/screens/test_secret_storage.py",
    "CommandArgumentsForm": "tests/screens/test_custom_commands.py",
    "ExportForm": "tests/screens/test_history.py",
    "OfferCompactionDialog": "tests/screens/test_compaction.py",
    "PageMessageDialog": "tests/screens/test_app_pages.py",
    "RenameForm": "tests/screens/test_history.py",
    "SaveLogForm": "tests/screens/test_server_log.py",
    "SaveMessagesForm": "tests/screens/test_messages.py",
    "SaveResourceForm": "tests/screens/test_save_resource.py",
    "ReviewCompactionDialog": "tests/screens/test_compaction.py",
    "TrustProjectDialog": "tests/screens/test_instructions.py",
}
"""Dialogs that no test drives in a terminal yet, and the file that drives them through the app's pilot."""


def _asking() -> set[type[Any]]:
    """Return the classes of all dialogs, and of all forms that open over the chat, which have no subclasses."""
    for room in (mcphost.tui.dialogs, mcphost.tui.screens):
        for module in iter_modules(room.__path__, f"{room.__name__}."):
            import_module(module.name)
    found: set[type[Any]] = set()
    more: list[type[Any]] = [ModalScreen]
    while more:
        kinds = [kind for kind in more.pop().__subclasses__() if kind.__module__.startswith("mcphost.")]
        more += kinds
        # EditArgumentsDialog is used itself, and is also a base class.
        found.update(kind for kind in kinds if not kind.__subclasses__() or kind is EditArgumentsDialog)
    return found


_SIGN_IN = "test_every_sign_in.test_escape_cancels_a_sign_in_at_each_step_and_stores_nothing"
_LOCKED = "test_every_sign_in.test_escape_leaves_the_file_of_sign_ins_locked_and_it_opens_by_keyboard_alone"
_SEALED = "test_sign_in.test_a_code_is_entered_elsewhere_the_sign_in_sealed_and_opened_by_the_next_run"
COVERED_ELSEWHERE = {
    "EnterClientIdDialog": (_SIGN_IN, "test_sign_in.test_a_client_id_is_entered_and_its_secret_never_seen"),
    "SignInDialog": (_SIGN_IN, "test_sign_in.test_the_browser_returns_and_the_server_is_ready"),
    "ChooseSecretStorageDialog": (_SIGN_IN, _SEALED),
    "UnlockSecretsDialog": (_LOCKED, _SEALED),
    "SetupScreen": (
        "test_first_start.test_escape_and_typing_close_the_start_card_and_choose_nothing",
        "test_first_start.test_two_keys_after_the_start_card_the_first_answer_with_a_tool_call_stands",
    ),
    "ModelForm": ("test_first_start.test_settings_of_a_model_are_saved_on_request_and_not_on_escape",),
    "ProfileForm": ("test_first_start.test_a_profile_is_saved_on_request_and_not_on_escape_and_used_at_once",),
    "ServerForm": ("test_first_start.test_a_server_is_added_on_request_and_not_on_escape_and_works_at_once",),
    "InstallForm": (
        "test_first_start.test_a_server_of_the_registry_is_installed_on_request_and_not_on_escape_and_works_at_once",
    ),
    "ProviderKeyForm": ("test_first_start.test_a_key_is_stored_on_enter_and_not_on_escape",),
    "ThemePicker": ("test_every_dialog.test_a_theme_is_kept_on_enter_and_not_on_escape",),
}
"""Dialogs that other tests refuse, whatever was typed ahead, and agree to in a terminal."""


def test_every_dialog_and_every_form_is_driven() -> None:
    covered = sorted([*driven_dialogs(), *COVERED_ELSEWHERE, *ONLY_ON_SCREEN])
    assert sorted(kind.__name__ for kind in _asking()) == covered
    assert {name for tests in COVERED_ELSEWHERE.values() for name in tests} <= terminal_tests().keys()


def test_a_theme_is_kept_on_enter_and_not_on_escape(user: DialogUser) -> None:
    user.start_chat()
    user.terminal.wait_for("Type a message", "ctrl+p palette")
    for key, kept in (("Escape", False), ("Enter", True)):
        user.terminal.press("C-l")
        user.terminal.wait_for("auto (as the terminal)", "tide-light")
        assert "● tide-light" not in user.terminal.screen()
        user.terminal.press("End", key)
        user.terminal.wait_until(lambda screen: "tide-light" not in screen, "the chat")
        user.terminal.press("C-l")
        user.terminal.wait_for("● tide-light" if kept else "  tide-light")
        user.terminal.press("Escape")
        user.terminal.wait_until(lambda screen: "tide-light" not in screen, "the chat")


def ignore(_: object) -> None:
    """Do nothing."""


NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
ADD: dict[str, Any] = attack_tool("add") | {"inputSchema": NUMBERS}
WANTS = "Run peer · add?"


@pytest.mark.timeout(240)
@drives_dialogs(CallToolDialog)
def test_a_tool_called_by_hand(user: DialogUser) -> None:
    user.start_chat(peer=user.hostile_server("peer", ADD))
    user.wait_for_servers()
    user.terminal.press("F3")
    user.terminal.wait_for("implementation")
    user.terminal.press("t")
    user.terminal.wait_for("in each request")
    form = "Call peer · add"

    def fills_in() -> None:
        user.terminal.press("Enter")
        user.terminal.wait_for(form)
        user.terminal.press("2")
        user.terminal.press("Tab")
        user.terminal.press("5")

    user.expect_refusal(CallToolDialog, user.key_action("Enter"), form, ahead=["7"], keys=["Escape", "Escape"])
    user.expect_acceptance(CallToolDialog, fills_in, form, keys=["C-s"], effects=["tool add"])
    assert user.setup.effects()[-1]["arguments"] == {"a": 2, "b": 5}


@pytest.mark.timeout(240)
@drives_dialogs(ToolConsentDialog, EditArgumentsDialog, RuleBuilderDialog, ContinueTurnDialog)
def test_a_call_its_arguments_a_rule_about_it_and_another_round(user: DialogUser) -> None:
    user.write_config("[limits]\nmax_rounds = 1\n")
    user.start_chat(peer=user.hostile_server("peer", ADD))
    user.wait_for_servers()
    says = user.message_action("call add a=2 b=40")

    def edits() -> None:
        user.terminal.press("e")
        user.terminal.wait_for("ctrl+s apply")
        user.terminal.press("5")

    user.expect_refusal(ToolConsentDialog, says, WANTS, ahead=["a", "s", "A"], answers=["tool deny"])
    user.expect_refusal(ContinueTurnDialog, user.no_action, "for tools 1 time ", ahead=["g"], answers=["turn no"])
    user.terminal.wait_for("Stopped at the tool round limit.")

    says()
    user.wait_for_dialog(ToolConsentDialog, WANTS)
    # Nothing is accepted on the page of arguments: letters typed after the key that opened it go into its field.
    edit, rule = "Edit the arguments of peer", "Which calls run without asking?"
    user.expect_refusal(EditArgumentsDialog, user.key_action("e"), edit, ahead=["7"], keys=["Escape", "Escape"])
    assert "edited by you" not in user.terminal.wait_for(WANTS)
    user.expect_acceptance(EditArgumentsDialog, edits, edit, keys=["C-s"])
    user.expect_acceptance(
        ToolConsentDialog, user.no_action, WANTS, "edited by you: 1 changed", "a once",
        keys=["a"], effects=["tool add"], answers=["tool once, edited"],
    )  # fmt: skip
    assert user.setup.effects()[-1]["arguments"] == {"a": 25, "b": 40}

    def said(screen: str) -> bool:
        return "add returned:" in screen

    user.expect_acceptance(
        ContinueTurnDialog, user.no_action, "Continue?", keys=["g"], answers=["turn yes"], leaves=said
    )

    says()
    user.wait_for_dialog(ToolConsentDialog, WANTS, "A always")
    user.expect_refusal(RuleBuilderDialog, user.key_action("A"), rule, ahead=["C-s"])
    user.expect_acceptance(
        RuleBuilderDialog, user.key_action("A"), rule, "Applies to this call and",
        keys=["C-s"], effects=["tool add"], answers=["tool rule"],
    )  # fmt: skip
    user.press_through(ContinueTurnDialog, "Continue?", key="Escape")
    says()
    user.expect_effects(len(user.setup.effects()), "tool add")


@pytest.mark.timeout(240)
@drives_dialogs(
    TrustServerDialog, FillFormDialog, VisitUrlDialog, RetryCallDialog, ReviewSamplingDialog, ReviewReplyDialog,
    ShareRootsDialog, ReviewToolChangesDialog,
)  # fmt: skip
def test_requests_of_a_server(user: DialogUser) -> None:
    far = {"mode": "url", "message": "Pay", "url": URL, "elicitationId": "e1"}
    refused = {"error": {"code": -32042, "message": "go there first", "data": {"elicitations": [far]}}}
    tools = [attack_tool(name) for name in ("form", "visit", "later", "sample", "roots")]
    calls = {
        "form": [{"asks": {"a": attack_form_request("name")}}], "visit": [{"asks": {"a": attack_url_request()}}],
        "later": [{"answer": refused}],
        "sample": [{"asks": {"a": attack_sampling_request()}}], "roots": [{"asks": {"a": ROOTS}}],
    }  # fmt: skip
    place = f'roots = [{{path = "{user.setup.folder}", name = "home"}}]'
    user.write_config(place, peer=user.hostile_server("peer", *tools, calls=calls))

    trust, opens = "Use the server peer?", partial(user.terminal.start_chat, "--model", "demo")
    user.expect_refusal(TrustServerDialog, opens, trust, ahead=["s"], answers=["trust deny"])
    user.terminal.press("F3")
    user.terminal.wait_for("r shows the question again")
    asked = user.key_action("r")
    user.expect_acceptance(TrustServerDialog, asked, trust, keys=["End", "s"], answers=["trust once"])
    user.terminal.wait_for("5 tools")
    user.terminal.press("Escape")
    user.wait_for_servers()

    def drifts(words: str) -> Callable[[], None]:
        changed = [attack_tool("form", words), attack_tool("visit", words), *tools[2:]]
        return lambda: ignore(user.setup.write_plan("peer", *changed, calls=calls, push=[LIST_CHANGED]))

    drift, held = "peer changed 2 of its tools", ["drift held back"]
    user.expect_refusal(ReviewToolChangesDialog, drifts("one"), drift, "+ description: one", ahead=["k"], answers=held)
    user.expect_acceptance(
        ReviewToolChangesDialog, drifts("two"), drift, "+ description: two", keys=["k", "k"], answers=["drift kept"]
    )

    def by_hand(name: str) -> Callable[[], None]:
        return user.message_action(f"!peer/{name} ")

    asks, said_no = "asks you to fill in a form", "refused elicitation/create"
    user.expect_refusal(
        FillFormDialog, by_hand("form"), asks,
        ahead=["C-s", "C-d"], effects=["tool form", said_no], answers=["form cancel"],
    )  # fmt: skip
    user.expect_acceptance(
        FillFormDialog, by_hand("form"), asks,
        keys=["Tab", "A", "C-s"], effects=["tool form", "form"], answers=["form accept"],
    )  # fmt: skip

    goes, visit = "Open an address for peer?", VisitUrlDialog
    user.expect_refusal(
        visit, by_hand("visit"), goes, ahead=["o"], effects=["tool visit", said_no], answers=["url cancel"]
    )
    user.expect_acceptance(
        visit, by_hand("visit"), goes, keys=["o"], effects=["tool visit", "visited"], answers=["url visited"]
    )
    assert (user.setup.folder / "visited").read_text() == f"{URL}\n"

    def went(calls: dict[str, Any] = calls) -> None:
        by_hand("later")()
        user.press_through(visit, goes, key="o")
        user.setup.write_plan("peer", attack_tool("form", "two"), attack_tool("visit", "two"), *tools[2:], calls=calls)

    again = "Call peer again?"
    user.expect_refusal(
        RetryCallDialog, went, again, ahead=["r"], effects=["tool later"], answers=["url visited", "url no"]
    )
    user.expect_acceptance(
        RetryCallDialog, partial(went, {**calls, "later": []}), again,
        keys=["r"], effects=["tool later", "tool later"], answers=["url visited", "url yes"],
    )  # fmt: skip

    asks, said_no = "Let peer ask your model?", "refused sampling/createMessage"
    user.expect_refusal(
        ReviewSamplingDialog, by_hand("sample"), asks,
        ahead=["a"], effects=["tool sample", said_no], answers=["sampling deny"],
    )  # fmt: skip

    def answered() -> None:
        by_hand("sample")()
        user.expect_acceptance(
            ReviewSamplingDialog, user.no_action, asks,
            keys=["End", "a"], effects=["tool sample"], answers=["sampling as shown"],
        )  # fmt: skip

    sends = "Send this answer to peer?"
    user.expect_refusal(
        ReviewReplyDialog,
        answered,
        sends,
        ahead=["a"],
        effects=["tool sample", said_no],
        answers=["sampling as shown", "sampling deny"],
    )
    user.expect_acceptance(
        ReviewReplyDialog,
        answered,
        sends,
        keys=["End", "a"],
        effects=["tool sample", "sampling"],
        answers=["sampling as shown", "sampling as shown"],
    )

    where = "Share your folder paths with peer?"
    # Accepted first: a refusal would answer the same question for a minute.
    user.expect_acceptance(
        ShareRootsDialog, by_hand("roots"), where, keys=["a"], effects=["tool roots", "roots"], answers=["roots once"]
    )
    user.expect_refusal(
        ShareRootsDialog, by_hand("roots"), where,
        ahead=["a", "s"], effects=["tool roots", "refused roots/list"], answers=["roots deny"],
    )  # fmt: skip


@pytest.mark.timeout(240)
@drives_dialogs(SharePerServerDialog)
def test_servers_that_request_the_folders_at_the_same_moment(user: DialogUser) -> None:
    asks = {"command": sys.executable, "args": [str(Path(roots_server.__file__)), "start"]}

    def calls() -> None:
        user.start_chat(one=asks, two=asks)
        user.terminal.wait_for("2/2 servers", "F6 history")
        user.message_action("!one/where ")()

    where = "Share your folder paths with 2 servers?"
    user.expect_refusal(SharePerServerDialog, calls, where, ahead=["1", "2", "3"], answers=["roots deny"])
    user.terminal.press("C-q")
    user.terminal.wait_for_shell()
    user.expect_acceptance(SharePerServerDialog, calls, where, keys=["End", "1"], answers=["roots each"])


@pytest.mark.timeout(240)
@drives_dialogs(WaitingCallsDialog, ReviewResultDialog)
def test_several_calls_and_the_results_of_one(user: DialogUser) -> None:
    user.start_chat(peer=user.hostile_server("peer", ADD, attack_tool("list_notes"), mcphost={"reviewResults": True}))
    user.wait_for_servers()
    says, gave = user.message_action("call list_notes"), "Let the model read the result of peer · list_notes?"

    def called() -> None:
        says()
        user.press_through(ToolConsentDialog, "Run peer · list_notes?", key="a")

    user.expect_refusal(
        ReviewResultDialog, called, gave,
        ahead=["a"], effects=["tool list_notes"], answers=["tool once", "result withheld"],
    )  # fmt: skip
    user.terminal.wait_for("list_notes returned: The call ran, but its result is withheld", "withheld from the model")
    user.expect_acceptance(
        ReviewResultDialog, called, gave,
        keys=["End", "a"], effects=["tool list_notes"], answers=["tool once", "result passed"],
    )  # fmt: skip
    user.terminal.wait_for("list_notes returned: list_notes ran")

    both, wait = user.message_action("add 1 and 2 and list my notes"), "2 calls are waiting"
    user.expect_refusal(
        WaitingCallsDialog, both, wait, "2 not read yet",
        ahead=["A", "d"], keys=["Escape", "Escape"], answers=["tool deny", "tool deny"],
    )  # fmt: skip

    def read() -> None:
        both()
        for name in ("add", "list_notes"):
            user.press_through(WaitingCallsDialog, wait, key="o")
            user.press_through(ToolConsentDialog, f"Run peer · {name}?", key="l")

    user.expect_acceptance(
        WaitingCallsDialog, read, wait, "all were read to the end",
        keys=["A"], effects=["tool add", "tool list_notes"], answers=["tool once", "tool once"],
    )  # fmt: skip
