"""Tests of an interactive page in the real program: it is opened by a command, after a question, in the browser."""

import sys
from urllib.request import urlopen

import pytest

from mcphost.tui.dialogs.pages import OpenPageDialog
from tests.peers.sdk_programs import PAGE_SERVER
from tests.terminal.dialog_coverage import drives_dialogs
from tests.terminal.dialog_user import DialogUser

QUESTION = "Open a page of clock?"


@pytest.mark.timeout(180)
@drives_dialogs(OpenPageDialog)
def test_a_page_is_opened_in_the_browser_only_after_its_question(user: DialogUser) -> None:
    visited = user.setup.folder / "visited"
    user.start_chat(clock={"command": sys.executable, "args": [PAGE_SERVER, "stdio"]})
    user.wait_for_servers()
    user.type_message("!clock/show_clock city=Bern")
    user.terminal.press("Enter")
    user.terminal.wait_for("interactive page", "/app opens it in the browser")

    def open_page() -> None:
        user.type_message("/app")
        user.terminal.press("Enter")

    user.expect_refusal(OpenPageDialog, open_page, QUESTION, ahead=["o"], answers=["page no"])
    user.terminal.wait_for("The page was not opened.")
    assert not visited.exists()
    user.expect_acceptance(OpenPageDialog, open_page, QUESTION, keys=["End", "o"], answers=["page yes"])
    user.terminal.wait_for("is open in your browser")
    with urlopen(visited.read_text().strip()) as answer:
        assert b'sandbox="allow-scripts"' in answer.read()
