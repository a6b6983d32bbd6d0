"""Tests for every small form that opens over the chat: Escape closes it, and early keys never confirm it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from mcphost.tui.dialogs.sign_in import SignInDialog
from mcphost.tui.screens.accounts import AccountNameForm
from mcphost.tui.screens.auto_approve import AutoApprovalForm
from mcphost.tui.screens.prompts import PromptArgumentsForm, PromptPreview
from mcphost.tui.screens.resources import ResourceTemplateForm
from mcphost.tui.screens.roots import FolderForm
from mcphost.tui.screens.system_prompt import SystemPromptForm
from tests.flows.consent_attacks.attack import attack_tool
from tests.flows.sign_in_program import SignedInServer
from tests.terminal.dialog_coverage import drives_dialogs
from tests.terminal.dialog_user import DialogUser
from tests.unit.auth.oauth_peer import run_peer

GREET = {"name": "greet", "arguments": [{"name": "who", "required": True}]}
NOTE = {"name": "note", "uriTemplate": "note://{name}"}
SAYS = {"messages": [{"role": "user", "content": {"type": "text", "text": "hello to you"}}]}
TALKS = {
    "messages": [*SAYS["messages"], {"role": "assistant", "content": {"type": "text", "text": "I greet you"}}],
}  # fmt: skip
FACTS = {
    "capabilities": {"tools": {}, "prompts": {}, "resources": {}}, "serverInfo": {"name": "peer", "version": "1"},
}  # fmt: skip
REPLIES = {
    "prompts/list": {"prompts": [GREET]},
    "prompts/get": SAYS,
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": [NOTE]},
    "resources/read": {"contents": [{"uri": "note://A", "text": "a note"}]},
}


def stored_files(folder: Path) -> dict[str, bytes]:
    """Return the content of the .toml and .json files in the user's folders, keyed by file name."""
    paths = (path for where in ("config", "data") for path in (folder / where).rglob("*.*"))
    return {path.name: path.read_bytes() for path in paths if path.suffix in {".toml", ".json"}}


def assert_escape_leaves(user: DialogUser, kind: type[Any], key: str, *texts: str, ahead: Sequence[str]) -> None:
    """Check that keys typed together with the one that opens a form do not confirm it, and that Escape closes it.

    Neither may have an effect or change a stored file.
    """
    (happened, recorded), kept = user.marks, stored_files(user.setup.folder)
    user.terminal.press(key, *ahead)
    there = user.dialog_matcher(kind, texts)
    user.wait_for_dialog(kind, *texts)
    user.press_until(["Escape"], lambda screen: not there(screen), f"{kind.__name__} left")
    assert user.marks == (happened, recorded)
    assert stored_files(user.setup.folder) == kept
    user.refused.add(kind)


def postpone(user: DialogUser, key: str, *texts: str) -> Callable[[], None]:
    """Return a function that opens a page with *key* and waits for its texts."""

    def opened() -> None:
        user.terminal.press(key)
        user.terminal.wait_for(*texts)

    return opened


def return_to_chat(user: DialogUser) -> None:
    """Press Escape until the chat is visible."""
    user.press_until(["Escape"], lambda screen: "F6 history" in screen, "the chat")


@pytest.mark.timeout(240)
@drives_dialogs(PromptArgumentsForm, ResourceTemplateForm, FolderForm, AutoApprovalForm)
def test_forms_for_prompts_addresses_folders_and_auto_approval(user: DialogUser) -> None:
    reads = attack_tool("list_notes", annotations={"readOnlyHint": True})
    user.start_chat(peer=user.hostile_server("peer", reads, facts=FACTS, replies=REPLIES))
    user.wait_for_servers()
    terminal = user.terminal

    prompts = postpone(user, "F5", "Prompts", "greet", "fill in and insert")
    prompts()
    assert_escape_leaves(
        user, PromptArgumentsForm, "Enter", "peer · greet", "Insert", ahead=["Enter", "Enter", "Enter"]
    )

    def greets() -> None:
        prompts()
        terminal.press("Enter")
        user.wait_for_dialog(PromptArgumentsForm, "peer · greet", "Insert")
        terminal.press("A")
        terminal.wait_until(lambda screen: any(line.strip("│▌▐ ") == "A" for line in screen.splitlines()), "the letter")

    user.expect_acceptance(
        PromptArgumentsForm, greets, "peer · greet", "Insert", keys=["Enter"], effects=["prompts/get"]
    )  # fmt: skip
    terminal.wait_for("hello to you")
    user.type_message("")

    resources = postpone(user, "F4", "Resources", "note", "attach to the message")
    resources()
    assert_escape_leaves(
        user, ResourceTemplateForm, "Enter", "peer · note", "enter next · ctrl+s attach", ahead=["Enter", "Enter"]
    )

    def reads_note() -> None:
        terminal.wait_for("attach to the message")
        terminal.press("Enter")

    user.expect_acceptance(
        ResourceTemplateForm,
        reads_note,
        "peer · note",
        "enter next · ctrl+s attach",
        keys=["A", "Enter"],
        effects=["resources/read"],
    )
    terminal.wait_for("@ resource", "peer · note://A")

    out, page = "Remove a folder", ("Shared folders", "where mcphost was started")
    postpone(user, "C-o", *page)()
    assert_escape_leaves(user, FolderForm, "x", out, ahead=["Space", "C-s", "Enter"])
    assert_escape_leaves(user, FolderForm, "a", "Share a folder", ahead=["/", "C-s", "Enter", "C-s"])
    terminal.wait_for(*page)
    user.expect_acceptance(FolderForm, user.key_action("x"), out, keys=["C-s"])
    terminal.wait_for("removed by you")
    return_to_chat(user)

    unasked = "Auto-approve"
    assert_escape_leaves(user, AutoApprovalForm, "F9", unasked, "list_notes", ahead=["Down", "Space", "C-s"])
    assert "AUTO-APPROVE ON" not in terminal.wait_for("F6 history")

    def picks() -> None:
        terminal.press("F9")
        user.wait_for_dialog(AutoApprovalForm, unasked, "□ peer  list_notes")
        terminal.press("Down", "Space")
        terminal.wait_for("■ peer  list_notes")

    user.expect_acceptance(AutoApprovalForm, picks, unasked, "list_notes", keys=["C-s"])
    terminal.wait_for("AUTO-APPROVE ON")


@pytest.mark.timeout(240)
@drives_dialogs(PromptPreview)
def test_the_preview_of_a_prompt_with_several_messages(user: DialogUser) -> None:
    replies = {**REPLIES, "prompts/get": TALKS}
    user.start_chat(peer=user.hostile_server("peer", facts=FACTS, replies=replies))
    user.wait_for_servers()
    terminal, texts = user.terminal, ("peer · greet · 2 messages", "Edit as text")

    def fill_in(*ahead: str) -> None:
        postpone(user, "F5", "Prompts", "greet", "fill in and insert")()
        terminal.press("Enter")
        user.wait_for_dialog(PromptArgumentsForm, "peer · greet", "Insert")
        terminal.press("A")
        terminal.wait_until(lambda screen: any(line.strip("│▌▐ ") == "A" for line in screen.splitlines()), "the letter")
        terminal.press("Enter")
        terminal.wait_between_keys()
        terminal.press("Enter", *ahead)

    (happened, recorded), is_there = user.marks, user.dialog_matcher(PromptPreview, texts)
    fill_in("C-s", "C-s", "C-s")
    user.wait_for_dialog(PromptPreview, *texts)
    user.press_until(["Escape"], lambda screen: not is_there(screen), "the preview left")
    assert "from the prompt" not in terminal.screen()
    user.expect_effects(happened, "prompts/get")
    user.expect_answers(recorded)
    user.refused.add(PromptPreview)

    user.expect_acceptance(PromptPreview, fill_in, *texts, keys=["Enter"], effects=["prompts/get"])
    terminal.wait_for(
        "User  from the prompt greet of peer", "hello to you", "Assistant  from the prompt", "I greet you"
    )
    terminal.press("M-u")
    terminal.wait_until(lambda screen: "from the prompt" not in screen, "the messages taken back")


@pytest.mark.timeout(240)
@drives_dialogs(SystemPromptForm)
def test_a_system_prompt_is_saved_on_request_and_not_on_escape(user: DialogUser) -> None:
    user.start_chat()
    texts = ("System prompt of this conversation", "ctrl+s save")

    def opens() -> None:
        user.terminal.wait_for("Type a message", "ctrl+p palette")
        user.terminal.type("/system")
        user.terminal.press("Enter")

    opens()
    user.wait_for_dialog(SystemPromptForm, *texts, "This is the default system prompt.")
    user.terminal.type("Rhyme. ")
    user.press_until(["Escape"], lambda screen: texts[1] not in screen, "the form left")
    opens()
    screen = user.wait_for_dialog(SystemPromptForm, *texts, "This is the default system prompt.")
    assert "Rhyme." not in screen
    user.press_until(["Escape"], lambda screen: texts[1] not in screen, "the form left")
    user.refused.add(SystemPromptForm)

    user.expect_acceptance(SystemPromptForm, opens, *texts, keys=["R", "h", "y", "C-s"])
    opens()
    screen = user.wait_for_dialog(SystemPromptForm, *texts, "This conversation has its own system prompt.")
    assert "Rhy" in screen


@pytest.mark.timeout(240)
@drives_dialogs(AccountNameForm)
def test_a_name_to_sign_in_under(user: DialogUser) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(run_peer(kind=SignedInServer)) as peer:
        user.start_chat(tracker={"url": peer.url})
        signs, under = "Sign in to tracker?", "Sign in to tracker with another account"
        user.press_through(SignInDialog, signs, key="Escape")
        user.terminal.wait_for("F6 history")
        postpone(user, "F12", "Accounts", "tracker")()
        assert_escape_leaves(user, AccountNameForm, "n", under, ahead=["w", "Enter", "Enter"])
        assert peer.asked == []
        user.expect_acceptance(AccountNameForm, user.key_action("n"), under, keys=[*"work", "Enter"])
        user.wait_for_dialog(SignInDialog, signs, "work")
        user.press_through(SignInDialog, signs, key="Escape")
        assert peer.asked == []
