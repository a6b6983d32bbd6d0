"""Tests for questions about storing a sign-in without a keyring: shown in full, by keyboard, refused by default."""

import re
from typing import Any

import anyio
import pytest
from textual.widgets import Input

from mcphost.host.questions.sign_in import (
    ChooseSecretStorage,
    EnterPassphrase,
    KeepInEncryptedFile,
    KeepInMemory,
    KeepInPlainFile,
    LeaveLocked,
    PastedRedirect,
    SignInQuestion,
    UnlockSecrets,
)
from mcphost.serialization import replace
from mcphost.sign_in_types import WRONG_REDIRECT, check_entries
from mcphost.tui.widgets.composer import Composer
from tests.screens.ask_question import PendingQuestion, ask_and_press, trust_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
UNLOCK = UnlockSecrets(server="", why="sign-ins are kept in an encrypted file", file="/data/secrets.sealed.json")


def storage_question(**more: Any) -> ChooseSecretStorage:
    return ChooseSecretStorage(
        server="",
        why="you signed in, and no keyring can store the sign-in",
        servers=("tracker",),
        reason="No keyring service is responding.",
        plain_file="/data/secrets.json",
        sealed_file="/data/secrets.sealed.json",
        **more,
    )


@pytest.mark.req("auth.token.storage-fallback")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_faults_and_all_their_places_are_shown_in_full(run: Run, size: tuple[int, int]) -> None:
    async with run(size=size) as driver:
        PendingQuestion(driver, storage_question())
        await driver.enter_question()
        shown = driver.text()
        for text in ("Store your sign-in for tracker?", "No keyring service is responding.", "/data/secrets.json",
                     "/data/secrets.sealed.json", "this session only", "mode 0600"):  # fmt: skip
            assert text in shown, text


@pytest.mark.req("auth.token.storage-fallback")
@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), KeepInMemory()),
        (("enter",), KeepInMemory()),
        (("d",), KeepInMemory()),
        (("f",), KeepInPlainFile()),
        (("e", "p", "w", "enter", "p", "w", "enter"), KeepInEncryptedFile("pw")),
        (("e", "p", "w", "enter", "p", "enter", "w", "enter"), KeepInEncryptedFile("pw")),
        (("e", "enter", "p", "enter", "p", "enter"), KeepInEncryptedFile("p")),
        (("e", "p", "escape", "escape"), KeepInMemory()),
    ],
)
async def test_a_file_is_used_only_when_it_was_chosen(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=(80, 24)) as driver:
        assert await ask_and_press(driver, storage_question(), *keys) == answer


async def test_the_pass_phrase_of_a_file_that_is_there_is_typed_once(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        assert await ask_and_press(
            driver, storage_question(is_new=False), "e", "p", "w", "enter"
        ) == KeepInEncryptedFile("pw")


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), LeaveLocked()),
        (("enter",), LeaveLocked()),
        (("p", "x", "escape", "escape"), LeaveLocked()),
        (("p", "enter", "p", "w", "enter"), EnterPassphrase("pw")),
    ],
)
async def test_a_file_stays_locked_without_its_passphrase(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=(80, 24)) as driver:
        assert await ask_and_press(driver, UNLOCK, *keys) == answer


async def test_different_pass_phrases_are_reported_until_the_next_key(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, storage_question())
        await driver.enter_question()
        await driver.pilot.press("e", *"one", "enter", *"two", "enter")
        assert re.search("new passphrase +▌•••", driver.text())
        assert "repeat it" in driver.text()
        assert "the passphrases differ" in driver.text()
        await driver.pilot.press("backspace")
        assert "the passphrases differ" not in driver.text()


async def test_a_pass_phrase_is_never_on_the_screen(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, storage_question())
        await driver.enter_question()
        await driver.pilot.press("e", *"hunter2")
        assert "hunter2" not in driver.text()
        assert "•" in driver.text()
        await driver.pilot.press("enter", *"hunter3")
        assert "hunter3" not in driver.text()
        assert driver.text().count("•" * 7) == 2


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("e", *"pf", "enter", *"pf", "enter"), KeepInEncryptedFile("pf")),
        # Letters that mean another answer, right after the one that opens the inputs.
        (("e", *"fdef", "enter", *"fdef", "enter"), KeepInEncryptedFile("fdef")),
    ],
)
async def test_text_typed_right_after_enter_goes_into_the_second_input(
    run: Run, keys: tuple[str, ...], answer: Any
) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, storage_question())
        await driver.enter_question()
        driver.press_together(*keys)
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == answer


async def test_a_pass_phrase_that_is_typed_at_once_opens_the_file(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, UNLOCK)
        await driver.enter_question()
        driver.press_together("p", *"dip", "enter")
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == EnterPassphrase("dip")


REDIRECT = SignInQuestion(
    server="s",
    why="it wants to know who you are",
    url="https://as.example/",
    host="as.example",
    issuer="https://as.example",
)


@pytest.mark.parametrize(
    ("question", "key", "answer"),
    [
        (UNLOCK, "p", EnterPassphrase("hunter3")),
        (storage_question(is_new=False), "e", KeepInEncryptedFile("hunter3")),
        (REDIRECT, "p", PastedRedirect("hunter3")),
    ],
)
async def test_a_secret_typed_again_after_a_wrong_one_never_goes_into_the_message(
    run: Run, question: Any, key: str, answer: Any
) -> None:
    async with run(size=(80, 24)) as driver:
        assert await ask_and_press(driver, question, key, *"hunter2", "enter") is not None
        note = WRONG_REDIRECT if question is REDIRECT else "That passphrase is wrong."
        again = PendingQuestion(driver, replace(question, note=note))  # it may take seconds to find out
        await driver.until(lambda: isinstance(driver.app.focused, Input), "the input")
        driver.press_together(*"hunter3", "enter")
        await driver.until(lambda: again.answer is not None, "the second answer")
        assert (again.answer, driver.app.query_one(Composer).composer_input.text) == (answer, "")


async def test_a_repetition_before_its_input_is_shown_is_still_compared(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, storage_question())
        await driver.enter_question()
        driver.press_together("e", *"one", "enter", *"two", "enter")
        await driver.until(lambda: "the passphrases differ" in driver.text(), "what is wrong")
        assert pending.answer is None


class CheckingAsker:
    """A task that asks for a secret, rejects it once `checked` is set, and asks again until the entry is "hunter3"."""

    def __init__(self, driver: Any, question: Any, entry: type[Any]) -> None:
        self.frontend, self.question, self.entry = driver.frontend, question, entry
        self.answers: list[Any] = []
        self.checked, self.is_over = anyio.Event(), False
        driver.app.run_worker(self._ask, group="ask", exit_on_error=False)

    async def _ask(self) -> None:
        note = WRONG_REDIRECT if self.question is REDIRECT else "That passphrase is wrong."
        asked = self.question
        with check_entries():
            while not self.answers or self.answers[-1] not in (self.entry("hunter3"), self.question.refusal()):
                self.answers.append(await self.frontend.ask(asked))
                await self.checked.wait()
                asked = replace(self.question, note=note)
        self.is_over = True


checked_questions = pytest.mark.parametrize(
    ("question", "key", "entry"),
    [
        (UNLOCK, "p", EnterPassphrase),
        (storage_question(is_new=False), "e", KeepInEncryptedFile),
        (REDIRECT, "p", PastedRedirect),
    ],
)


@checked_questions
async def test_a_secret_typed_during_the_check_of_a_wrong_one_goes_into_the_next_entry(
    run: Run, question: Any, key: str, entry: type[Any]
) -> None:
    async with run(size=(80, 24)) as driver:
        asker = CheckingAsker(driver, question, entry)
        await driver.enter_question()
        other = PendingQuestion(driver, trust_question())
        await driver.pilot.press(key)
        driver.press_together(*"hunter2", "enter")
        await driver.until(lambda: asker.answers, "the wrong entry")
        await driver.pilot.press(*"hun")
        assert "hun" not in driver.text()
        assert "question is waiting" not in driver.text()
        asker.checked.set()
        await driver.until(lambda: type(driver.app.screen).__name__.endswith("Dialog"), "the question again")
        await driver.until(lambda: isinstance(driver.app.focused, Input), "the input")
        await driver.pilot.press(*"ter3", "enter")
        await driver.until(lambda: asker.is_over, "the right entry")
        assert asker.answers == [entry("hunter2"), entry("hunter3")]
        assert driver.app.query_one(Composer).composer_input.text == ""
        assert driver.host.sent == []
        await driver.until(lambda: driver.frontend.pending_questions and driver.dialog, "the other question")
        assert "files" in driver.text()
        assert other.answer is None


async def test_keys_that_arrive_together_with_a_wrong_passphrase_never_reach_the_message(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        asker = CheckingAsker(driver, UNLOCK, EnterPassphrase)
        await driver.enter_question()
        driver.press_together("p", *"hunter2", "enter")
        await driver.until(lambda: asker.answers, "the wrong entry")
        driver.press_together(*"hunter3", "enter")
        asker.checked.set()
        await driver.until(lambda: type(driver.app.screen).__name__.endswith("Dialog"), "the question again")
        await driver.until(lambda: isinstance(driver.app.focused, Input), "the input")
        assert driver.app.query_one(Composer).composer_input.text == ""
        assert driver.host.sent == []


async def test_a_passphrase_question_that_is_opened_again_with_f8_has_its_input_open(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        asker = CheckingAsker(driver, UNLOCK, EnterPassphrase)
        await driver.enter_question()
        await driver.pilot.press("p", *"hunter2", "enter")
        await driver.until(lambda: asker.answers, "the wrong entry")
        await driver.pilot.press("escape", *"a message")
        asker.checked.set()
        await driver.until(lambda: driver.app.screen.query("QuestionCard"), "the card")
        await driver.pilot.press("f8")
        await driver.until(lambda: isinstance(driver.app.focused, Input), "the input")
        await driver.pilot.press(*"hunter3", "enter")
        await driver.until(lambda: asker.is_over, "the right entry")
        assert asker.answers[-1] == EnterPassphrase("hunter3")


async def test_the_message_is_open_again_once_a_passphrase_is_accepted(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        asker = CheckingAsker(driver, UNLOCK, EnterPassphrase)
        await driver.enter_question()
        await driver.pilot.press("p", *"hunter3", "enter")
        await driver.until(lambda: asker.answers and "Checking" in driver.text(), "the check")
        asker.checked.set()
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        await driver.type("hello")
        assert driver.app.query_one(Composer).composer_input.text == "hello"


@pytest.mark.parametrize(("keys", "answer"), [(("escape",), KeepInMemory()), (("e", "f"), KeepInPlainFile())])
async def test_for_secrets_of_an_entry_only_the_plain_file_is_offered(
    run: Run, keys: tuple[str, ...], answer: object
) -> None:
    question = replace(storage_question(), sealed_file="")
    async with run() as driver:
        PendingQuestion(driver, question)
        await driver.enter_question()
        shown = driver.text()
        assert "Store the secrets of tracker?" in shown
        assert "the server is not saved" in shown
        assert "ncrypted" not in shown
    async with run() as driver:
        assert await ask_and_press(driver, question, *keys) == answer
