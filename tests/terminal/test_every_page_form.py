"""Every small form over the chat in the real program, by keyboard alone: Escape leaves, typing ahead never confirms."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from mcphost.tui.dialogs.sign_in import SignInDialog
from mcphost.tui.screens.account_name import AccountNameForm
from mcphost.tui.screens.auto_approve import AutoApprovalForm
from mcphost.tui.screens.folder_form import FolderForm
from mcphost.tui.screens.prompts import PromptArgumentsForm
from mcphost.tui.screens.template_address import ResourceTemplateForm
from tests.flows.around_consent.scene import tool
from tests.flows.test_sign_in import Talking
from tests.terminal.driven import drives
from tests.terminal.person import Person
from tests.unit.auth.peer import peer

GREET = {"name": "greet", "arguments": [{"name": "who", "required": True}]}
NOTE = {"name": "note", "uriTemplate": "note://{name}"}
SAYS = {"messages": [{"role": "user", "content": {"type": "text", "text": "hello to you"}}]}
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


def files(folder: Path) -> dict[str, bytes]:
    """What the program keeps for the person, as it is on the disk."""
    paths = (path for where in ("config", "data") for path in (folder / where).rglob("*.*"))
    return {path.name: path.read_bytes() for path in paths if path.suffix in {".toml", ".json"}}


def leaves(person: Person, kind: type[Any], key: str, *texts: str, ahead: Sequence[str]) -> None:
    """What comes with the key that opens it does not confirm it, and Escape leaves it: nothing came of it."""
    (happened, recorded), kept = person.marks, files(person.scene.folder)
    person.terminal.press(key, *ahead)
    there = person.shown(kind, texts)
    person.heeded(kind, *texts)
    person.until_heard(["Escape"], lambda screen: not there(screen), f"{kind.__name__} left")
    assert person.marks == (happened, recorded)
    assert files(person.scene.folder) == kept
    person.refused.add(kind)


def opens(person: Person, key: str, *texts: str) -> Callable[[], None]:
    """To be done later: that page."""

    def opened() -> None:
        person.terminal.press(key)
        person.terminal.wait_for(*texts)

    return opened


def back(person: Person) -> None:
    """From a page to the chat."""
    person.until_heard(["Escape"], lambda screen: "F6 history" in screen, "the chat")


@pytest.mark.timeout(240)
@drives(PromptArgumentsForm, ResourceTemplateForm, FolderForm, AutoApprovalForm)
def test_a_prompt_an_address_a_folder_and_tools_that_run_unasked(person: Person) -> None:
    reads = tool("list_notes", annotations={"readOnlyHint": True})
    person.starts(peer=person.peer("peer", reads, facts=FACTS, replies=REPLIES))
    person.ready()
    terminal = person.terminal

    prompts = opens(person, "F5", "Prompts", "greet", "fill and insert")
    prompts()
    leaves(person, PromptArgumentsForm, "Enter", "peer · greet", "Insert", ahead=["Enter", "Enter", "Enter"])

    def greets() -> None:
        prompts()
        terminal.press("Enter")
        person.heeded(PromptArgumentsForm, "peer · greet", "Insert")
        terminal.press("A")
        terminal.wait_until(lambda screen: any(line.strip("│ ") == "A" for line in screen.splitlines()), "the letter")

    person.agrees(
        PromptArgumentsForm, greets, "peer · greet", "Insert", keys=["Enter"], effects=["prompts/get"]
    )  # fmt: skip
    terminal.wait_for("hello to you")
    person.writes("")

    resources = opens(person, "F4", "Resources", "note", "attach to the message")
    resources()
    leaves(person, ResourceTemplateForm, "Enter", "peer · note", "attaches at the end", ahead=["Enter", "Enter"])

    def reads_note() -> None:
        terminal.wait_for("attach to the message")
        terminal.press("Enter")

    person.agrees(
        ResourceTemplateForm,
        reads_note,
        "peer · note",
        "attaches at the end",
        keys=["A", "Enter"],
        effects=["resources/read"],
    )
    terminal.wait_for("@ peer · note://A")

    out, page = "Take a folder out", ("Folders", "where mcphost was started")
    opens(person, "C-o", *page)()
    leaves(person, FolderForm, "x", out, ahead=["Space", "C-s", "Enter"])
    leaves(person, FolderForm, "a", "Add a folder that", ahead=["/", "C-s", "Enter", "C-s"])
    terminal.wait_for(*page)
    person.agrees(FolderForm, person.presses("x"), out, keys=["C-s"])
    terminal.wait_for("you took it out")
    back(person)

    unasked = "Let tools run unasked"
    leaves(person, AutoApprovalForm, "F9", unasked, "list_notes", ahead=["Down", "Space", "C-s"])
    assert "RUNS UNASKED" not in terminal.wait_for("F6 history")

    def picks() -> None:
        terminal.press("F9")
        person.heeded(AutoApprovalForm, unasked, "□ peer  list_notes")
        terminal.press("Down", "Space")
        terminal.wait_for("■ peer  list_notes")

    person.agrees(AutoApprovalForm, picks, unasked, "list_notes", keys=["C-s"])
    terminal.wait_for("RUNS UNASKED")


@pytest.mark.timeout(240)
@drives(AccountNameForm)
def test_a_name_to_sign_in_under(person: Person) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(peer(kind=Talking)) as one:
        person.starts(tracker={"url": one.url})
        signs, under = "Sign in to tracker?", "Sign in to tracker under another name"
        person.passes(SignInDialog, signs, key="Escape")
        person.terminal.wait_for("F6 history")
        opens(person, "F12", "Accounts", "tracker")()
        leaves(person, AccountNameForm, "n", under, ahead=["w", "Enter", "Enter"])
        assert one.asked == []
        person.agrees(AccountNameForm, person.presses("n"), under, keys=[*"work", "Enter"])
        person.heeded(SignInDialog, signs, "work")
        person.passes(SignInDialog, signs, key="Escape")
        assert one.asked == []
