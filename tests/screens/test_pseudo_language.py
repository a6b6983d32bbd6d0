"""Tests that every text on the screen is translated.

The screens are shown in a pseudo-language that replaces all letters. A word in plain letters was therefore not
translated, unless it is a name, a value or text from a server.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mcphost import translation
from mcphost.llm.messages import Message, TextPart
from mcphost.serialization import encode
from tests.screens import example_records, fake_host
from tests.screens.ask_question import PendingQuestion, each_example_question
from tests.screens.conftest import Run
from tests.screens.example_records import (
    create_example_audit_log,
    example_accounts,
    example_audit_records,
    example_grants,
)
from tests.translation.pseudo_language import PseudoLanguage

pytestmark = pytest.mark.anyio

_WORD = re.compile(r"(?<![\w/-])[a-z]{3,}(?![\w-])")  # no command, identifier or digest
NAMES = {
    "mcphost", "http", "https", "json", "token", "tokens", "sse", "stdio",
    "ctrl", "shift", "alt", "esc", "tab", "enter", "space", "down", "page", "end", "home",
}  # fmt: skip
"""Names and keys, which are the same in each language."""
VALUES = {
    "share_roots": {"long"},  # a folder, whose URI is in the question
    "review_result": {"key"},  # text of the result
    "f3 t": {"object", "type"},  # JSON Schema
    "f12": {"default"},  # the name of an account without a name
    "ctrl+l": {"dark", "light", "ember", "fjord", "tide", "parchment", "contrast"},  # themes
}
"""Values on the screens that are not in the example data as they are shown."""


@pytest.fixture(autouse=True)
def _speak_pseudo_language() -> Iterator[None]:
    translation.use_catalog(PseudoLanguage())
    yield
    translation.use_catalog(None)


def words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


@cache
def example_words() -> set[str]:
    """Return the words of the example data, which stay untranslated: names, values and texts from servers."""
    found: set[str] = set()
    for module in (fake_host, example_records):
        tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                found |= words(node.value)
    return found


@each_example_question
async def test_a_question_has_no_text_without_a_translation(run: Run, question: Any) -> None:
    async with run(size=(140, 60)) as driver:
        PendingQuestion(driver, question)
        await driver.enter_question()
        data = words(encode(question).decode().replace("\\n", " "))
        assert words(driver.text()) - data - NAMES - VALUES.get(question.KIND, set()) == set()


@pytest.mark.parametrize(
    "keys",
    ["f1", "f3", "f3 t", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f12", "ctrl+o", "ctrl+l", "ctrl+p", "ctrl+b"],
)
async def test_a_screen_has_no_text_without_a_translation(run: Run, tmp_path: Path, keys: str) -> None:
    async with run(size=(140, 60)) as driver:
        driver.host.accounts.kept = example_accounts()
        driver.host.grants.given = example_grants()
        driver.host.audit = create_example_audit_log(tmp_path, example_audit_records())
        await driver.pilot.press(*keys.split())
        await driver.pilot.pause()
        assert words(driver.text()) - example_words() - NAMES - VALUES.get(keys, set()) == set()
        await driver.host.audit.close()


@pytest.mark.parametrize(
    "command",
    [
        *("context", "cost", "export", "instructions", "model", "pin", "profile", "recall", "registry", "reload"),
        *("setup", "summary", "tasks"),
    ],
)
async def test_a_page_without_a_key_has_no_text_without_a_translation(run: Run, command: str) -> None:
    async with run(size=(140, 60)) as driver:
        driver.host.conversation.messages = (Message(role="user", parts=(TextPart("42"),)),)
        await driver.type(f"/{command}")
        await driver.pilot.press("escape", "enter")
        await driver.until(lambda: f"/{command}" not in driver.text(), "the page")
        await driver.pilot.pause()
        shown = words(driver.text()) | {word for one in driver.app._notifications for word in words(one.message)}
        assert shown - example_words() - NAMES - VALUES.get(command, set()) == set()
