"""Every dialog there is in the real program, by keyboard alone: Escape refuses, typing ahead never answers."""

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
from mcphost.tui.dialogs.edit_arguments import EditArgumentsDialog
from mcphost.tui.dialogs.fill_form import FillFormDialog
from mcphost.tui.dialogs.review_result import ReviewResultDialog
from mcphost.tui.dialogs.rule_builder import RuleBuilderDialog
from mcphost.tui.dialogs.sampling import ReviewReplyDialog, ReviewSamplingDialog
from mcphost.tui.dialogs.share_roots import SharePerServerDialog, ShareRootsDialog
from mcphost.tui.dialogs.tool_consent import ContinueTurnDialog, ToolConsentDialog
from mcphost.tui.dialogs.tools_changed import ReviewToolChangesDialog
from mcphost.tui.dialogs.trust_server import TrustServerDialog
from mcphost.tui.dialogs.visit_url import RetryCallDialog, VisitUrlDialog
from mcphost.tui.dialogs.waiting_calls import WaitingCallsDialog
from tests.flows import roots_server
from tests.flows.consent_attacks.attack import tool_definition
from tests.flows.consent_attacks.changes import LIST_CHANGED
from tests.flows.consent_attacks.server_requests import ROOTS, URL, form_request, sampling_request, url_request
from tests.terminal.dialog_coverage import driven_dialogs, drives_dialogs, terminal_tests
from tests.terminal.dialog_user import DialogUser


def _asking() -> set[type[Any]]:
    """Every dialog and every form over the chat that has no kinds of its own."""
    for room in (mcphost.tui.dialogs, mcphost.tui.screens):
        for module in iter_modules(room.__path__, f"{room.__name__}."):
            import_module(module.name)
    found: set[type[Any]] = set()
    more: list[type[Any]] = [ModalScreen]
    while more:
        kinds = [kind for kind in more.pop().__subclasses__() if kind.__module__.startswith("mcphost.")]
        more += kinds
        found.update(kind for kind in kinds if not kind.__subclasses__())
    return found


_SIGN_IN = "test_every_sign_in.test_escape_refuses_to_sign_in_at_each_step_and_keeps_nothing"
_LOCKED = "test_every_sign_in.test_escape_leaves_the_file_of_sign_ins_locked_and_it_opens_by_keyboard_alone"
_SEALED = "test_sign_in.test_a_code_is_entered_elsewhere_the_sign_in_sealed_and_opened_by_the_next_run"
COVERED_ELSEWHERE = {
    "EnterClientIdDialog": (_SIGN_IN, "test_sign_in.test_a_client_id_is_entered_and_its_secret_never_seen"),
    "SignInDialog": (_SIGN_IN, "test_sign_in.test_the_browser_comes_back_and_the_server_is_ready"),
    "ChooseSecretStorageDialog": (_SIGN_IN, _SEALED),
    "UnlockSecretsDialog": (_LOCKED, _SEALED),
}
"""Dialogs that other tests refuse, whatever was typed ahead, and agree to in a terminal."""


def test_every_dialog_and_every_form_is_driven() -> None:
    covered = sorted([*driven_dialogs(), *COVERED_ELSEWHERE])
    assert sorted(kind.__name__ for kind in _asking()) == covered
    assert {name for tests in COVERED_ELSEWHERE.values() for name in tests} <= terminal_tests().keys()


def void(_: object) -> None:
    """Nothing comes of it."""


NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}}
ADD: dict[str, Any] = tool_definition("add") | {"inputSchema": NUMBERS}
WANTS = "peer wants to run add"


@pytest.mark.timeout(240)
@drives_dialogs(ToolConsentDialog, EditArgumentsDialog, RuleBuilderDialog, ContinueTurnDialog)
def test_a_call_its_arguments_a_rule_about_it_and_another_round(person: DialogUser) -> None:
    person.write_config("[limits]\nmax_rounds = 1\n")
    person.start_chat(peer=person.hostile_server("peer", ADD))
    person.wait_for_servers()
    says = person.message_action("call add a=2 b=40")

    def edits() -> None:
        person.terminal.press("e")
        person.terminal.wait_for("ctrl+s apply")
        person.terminal.press("5")

    person.expect_refusal(ToolConsentDialog, says, WANTS, ahead=["a", "s", "A"], answers=["tool deny"])
    person.expect_refusal(ContinueTurnDialog, person.no_action, "for tools 1 times", ahead=["g"], answers=["turn no"])
    person.terminal.wait_for("Stopped at the limit of tool rounds.")

    says()
    person.wait_for_dialog(ToolConsentDialog, WANTS)
    # Nothing is agreed to on the page of arguments: what is typed after the key that opened it goes into its field.
    edit, rule = "Edit the arguments of peer", "Which calls run without asking?"
    person.expect_refusal(EditArgumentsDialog, person.key_action("e"), edit, ahead=["7"], keys=["Escape", "Escape"])
    assert "edited by you" not in person.terminal.wait_for(WANTS)
    person.expect_acceptance(EditArgumentsDialog, edits, edit, keys=["C-s"])
    person.expect_acceptance(
        ToolConsentDialog, person.no_action, WANTS, "edited by you: 1 changed", "a once",
        keys=["a"], effects=["tool add"], answers=["tool once, edited"],
    )  # fmt: skip
    assert person.setup.effects()[-1]["arguments"] == {"a": 25, "b": 40}

    def said(screen: str) -> bool:
        return "add says:" in screen

    person.expect_acceptance(
        ContinueTurnDialog, person.no_action, "Continue?", keys=["g"], answers=["turn yes"], leaves=said
    )

    says()
    person.wait_for_dialog(ToolConsentDialog, WANTS, "A always")
    person.expect_refusal(RuleBuilderDialog, person.key_action("A"), rule, ahead=["C-s"])
    person.expect_acceptance(
        RuleBuilderDialog, person.key_action("A"), rule, "Applies to this call and",
        keys=["C-s"], effects=["tool add"], answers=["tool rule"],
    )  # fmt: skip
    person.press_through(ContinueTurnDialog, "Continue?", key="Escape")
    says()
    person.expect_effects(len(person.setup.effects()), "tool add")


@pytest.mark.timeout(240)
@drives_dialogs(
    TrustServerDialog, FillFormDialog, VisitUrlDialog, RetryCallDialog, ReviewSamplingDialog, ReviewReplyDialog,
    ShareRootsDialog, ReviewToolChangesDialog,
)  # fmt: skip
def test_what_a_server_wants(person: DialogUser) -> None:
    far = {"mode": "url", "message": "Pay", "url": URL, "elicitationId": "e1"}
    refused = {"error": {"code": -32042, "message": "go there first", "data": {"elicitations": [far]}}}
    tools = [tool_definition(name) for name in ("form", "visit", "later", "sample", "roots")]
    calls = {
        "form": [{"asks": {"a": form_request("name")}}], "visit": [{"asks": {"a": url_request()}}],
        "later": [{"answer": refused}],
        "sample": [{"asks": {"a": sampling_request()}}], "roots": [{"asks": {"a": ROOTS}}],
    }  # fmt: skip
    place = f'roots = [{{path = "{person.setup.folder}", name = "home"}}]'
    person.write_config(place, peer=person.hostile_server("peer", *tools, calls=calls))

    trust, opens = "Use the server peer?", partial(person.terminal.start_chat, "--model", "demo")
    person.expect_refusal(TrustServerDialog, opens, trust, ahead=["o"], answers=["trust deny"])
    person.terminal.press("F3")
    person.terminal.wait_for("r asks you again")
    asked = person.key_action("r")
    person.expect_acceptance(TrustServerDialog, asked, trust, keys=["End", "o"], answers=["trust once"])
    person.terminal.wait_for("5 tools")
    person.terminal.press("Escape")
    person.wait_for_servers()

    def drifts(words: str) -> Callable[[], None]:
        changed = [tool_definition("form", words), tool_definition("visit", words), *tools[2:]]
        return lambda: void(person.setup.write_plan("peer", *changed, calls=calls, push=[LIST_CHANGED]))

    drift, held = "peer changed 2 of its tools", ["drift held back"]
    person.expect_refusal(
        ReviewToolChangesDialog, drifts("one"), drift, "+ description: one", ahead=["k"], answers=held
    )
    person.expect_acceptance(
        ReviewToolChangesDialog, drifts("two"), drift, "+ description: two", keys=["k", "k"], answers=["drift kept"]
    )

    def by_hand(name: str) -> Callable[[], None]:
        return person.message_action(f"!peer/{name} ")

    asks, said_no = "asks you to fill in a form", "refused elicitation/create"
    person.expect_refusal(
        FillFormDialog, by_hand("form"), asks,
        ahead=["C-s", "C-d"], effects=["tool form", said_no], answers=["form cancel"],
    )  # fmt: skip
    person.expect_acceptance(
        FillFormDialog, by_hand("form"), asks,
        keys=["Tab", "A", "C-s"], effects=["tool form", "form"], answers=["form accept"],
    )  # fmt: skip

    goes, visit = "Open an address for peer?", VisitUrlDialog
    person.expect_refusal(
        visit, by_hand("visit"), goes, ahead=["o"], effects=["tool visit", said_no], answers=["url cancel"]
    )
    person.expect_acceptance(
        visit, by_hand("visit"), goes, keys=["o"], effects=["tool visit", "visited"], answers=["url visited"]
    )
    assert (person.setup.folder / "visited").read_text() == f"{URL}\n"

    def went(calls: dict[str, Any] = calls) -> None:
        by_hand("later")()
        person.press_through(visit, goes, key="o")
        person.setup.write_plan(
            "peer", tool_definition("form", "two"), tool_definition("visit", "two"), *tools[2:], calls=calls
        )

    again = "Repeat the call of peer?"
    person.expect_refusal(
        RetryCallDialog, went, again, ahead=["r"], effects=["tool later"], answers=["url visited", "url no"]
    )
    person.expect_acceptance(
        RetryCallDialog, partial(went, {**calls, "later": []}), again,
        keys=["r"], effects=["tool later", "tool later"], answers=["url visited", "url yes"],
    )  # fmt: skip

    asks, said_no = "Let peer ask your model?", "refused sampling/createMessage"
    person.expect_refusal(
        ReviewSamplingDialog, by_hand("sample"), asks,
        ahead=["a"], effects=["tool sample", said_no], answers=["sampling deny"],
    )  # fmt: skip

    def answered() -> None:
        by_hand("sample")()
        person.expect_acceptance(
            ReviewSamplingDialog, person.no_action, asks,
            keys=["End", "a"], effects=["tool sample"], answers=["sampling as shown"],
        )  # fmt: skip

    sends = "Send this answer to peer?"
    person.expect_refusal(
        ReviewReplyDialog,
        answered,
        sends,
        ahead=["a"],
        effects=["tool sample", said_no],
        answers=["sampling as shown", "sampling deny"],
    )
    person.expect_acceptance(
        ReviewReplyDialog,
        answered,
        sends,
        keys=["End", "a"],
        effects=["tool sample", "sampling"],
        answers=["sampling as shown", "sampling as shown"],
    )

    where = "Share your folder paths with peer?"
    # Agreed to first: a refusal answers the same question for a minute.
    person.expect_acceptance(
        ShareRootsDialog, by_hand("roots"), where, keys=["o"], effects=["tool roots", "roots"], answers=["roots once"]
    )
    person.expect_refusal(
        ShareRootsDialog, by_hand("roots"), where,
        ahead=["o", "s"], effects=["tool roots", "refused roots/list"], answers=["roots deny"],
    )  # fmt: skip


@pytest.mark.timeout(240)
@drives_dialogs(SharePerServerDialog)
def test_servers_that_want_the_folders_at_the_same_moment(person: DialogUser) -> None:
    asks = {"command": sys.executable, "args": [str(Path(roots_server.__file__)), "start"]}

    def calls() -> None:
        person.start_chat(one=asks, two=asks)
        person.terminal.wait_for("2/2 servers", "F6 history", seconds=60)
        person.message_action("!one/where ")()

    where = "Share your folder paths with 2 servers?"
    person.expect_refusal(SharePerServerDialog, calls, where, ahead=["O", "S", "A"], answers=["roots deny"])
    person.terminal.press("C-q")
    person.terminal.wait_for_shell(seconds=30)
    person.expect_acceptance(SharePerServerDialog, calls, where, keys=["End", "O"], answers=["roots each"])


@pytest.mark.timeout(240)
@drives_dialogs(WaitingCallsDialog, ReviewResultDialog)
def test_several_calls_and_what_comes_of_one(person: DialogUser) -> None:
    person.start_chat(
        peer=person.hostile_server("peer", ADD, tool_definition("list_notes"), mcphost={"reviewResults": True})
    )
    person.wait_for_servers()
    says, gave = person.message_action("call list_notes"), "Let the model read the result of peer · list_notes?"

    def called() -> None:
        says()
        person.press_through(ToolConsentDialog, "peer wants to run list_notes", key="a")

    person.expect_refusal(
        ReviewResultDialog, called, gave,
        ahead=["a"], effects=["tool list_notes"], answers=["tool once", "result withheld"],
    )  # fmt: skip
    person.terminal.wait_for("list_notes says: The call ran. Its result is withheld", "withheld from the model")
    person.expect_acceptance(
        ReviewResultDialog, called, gave,
        keys=["End", "a"], effects=["tool list_notes"], answers=["tool once", "result passed"],
    )  # fmt: skip
    person.terminal.wait_for("list_notes says: list_notes ran")

    both, wait = person.message_action("add 1 and 2 and list my notes"), "2 calls wait"
    person.expect_refusal(
        WaitingCallsDialog, both, wait, "2 not read yet", ahead=["A", "d"], answers=["tool deny", "tool deny"]
    )

    def read() -> None:
        both()
        for name in ("add", "list_notes"):
            person.press_through(WaitingCallsDialog, wait, key="o")
            person.press_through(ToolConsentDialog, f"peer wants to run {name}", key="l")

    person.expect_acceptance(
        WaitingCallsDialog, read, wait, "all were read to the end",
        keys=["A"], effects=["tool add", "tool list_notes"], answers=["tool once", "tool once"],
    )  # fmt: skip
