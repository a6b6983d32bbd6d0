"""Tests for the rule builder: it starts from the call in the consent question, and its rules always cover that call."""

import time
from typing import Any

import pytest

from mcphost.config.rules import Condition, Rule
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, ApproveTool, Deny
from mcphost.serialization import replace
from tests.screens.ask_question import PendingQuestion, tool_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
FOLDER = "/home/me/proj"
TOOL = Rule(server="files", tool="write_file")
NO_OTHERS = Condition((), "only", ())


def call_question(**arguments: Any) -> ApproveTool:
    return tool_question(arguments=arguments or {"path": "src/a.txt", "lines": 20}, folder=FOLDER)


async def open_builder(driver: Any, question: ApproveTool | None = None) -> tuple[PendingQuestion, Any]:
    pending = PendingQuestion(driver, question or call_question())
    await driver.enter_question()
    await driver.pilot.press("A")
    await driver.until(lambda: type(driver.dialog).__name__ == "RuleBuilderDialog", "the rule builder")
    return pending, driver.dialog


async def wait_for_comparison(driver: Any) -> None:
    words = ("Applies to this call", "Applies from this call on")
    await driver.until(lambda: any(word in driver.text() for word in words), "what it covers")


async def save_rule(driver: Any, pending: PendingQuestion) -> Any:
    await wait_for_comparison(driver)
    await driver.pilot.press("ctrl+s")
    await driver.until(lambda: pending.answer is not None, "the answer")
    return pending.answer


async def focus_field(driver: Any, title: str) -> None:
    """Move to the field with this title by pressing Tab."""
    for _ in range(20):
        row = driver.app.screen.form.current_row
        if row is not None and row.field.title == title:
            return
        await driver.pilot.press("tab")
    pytest.fail(f"no field {title!r}")


async def choose_option(driver: Any, title: str, words: str) -> None:
    await focus_field(driver, title)
    options = [option.value for option in driver.app.screen.form.current_row.field.options]
    await driver.pilot.press("home", *["down"] * options.index(words), "space")


async def fill_next_field(driver: Any, text: str) -> None:
    """Fill in the field after the one with the focus."""
    await driver.pilot.press("tab", "ctrl+u")
    await driver.type(text)


@pytest.mark.req("ui.confirm")
async def test_it_starts_on_going_back_and_escape_returns_to_the_question(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending, _ = await open_builder(driver)
        assert driver.app.focused.id == "refuse"
        await driver.pilot.press("escape")
        await driver.until(lambda: type(driver.dialog).__name__ == "ToolConsentDialog", "the question")
        assert pending.answer is None
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer == Deny())


async def test_a_skill_is_always_allowed_without_a_rule_about_its_files(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        arguments = {"skill": "skill://pdf/SKILL.md", "files": ["SKILL.md"]}
        question = call_question(**arguments)
        pending = PendingQuestion(driver, replace(question, skill=arguments["skill"], tool="load_skill"))
        await driver.enter_question()
        await driver.pilot.press("A")
        await driver.until(lambda: pending.answer == AllowAlways(), "the answer")


async def test_a_late_answer_of_the_rule_comparison_is_harmless_while_the_page_closes(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        _, builder = await open_builder(driver)
        await builder.query_one("#live").remove()  # as when the page is removed
        builder.show_status()
        assert driver.dialog is builder


async def test_it_begins_with_the_narrowest_rule_that_covers_the_call(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending, _ = await open_builder(driver)
        await wait_for_comparison(driver)
        assert "files/write_file?path=under:/home/me/proj/src&lines=20&only:" in driver.text()
        assert "with no other arguments; in this project, valid for 30 days." in " ".join(
            driver.text().replace("│", " ").split()
        )
        before = time.time()
        answer = await save_rule(driver, pending)
        assert isinstance(answer, AllowRule)
        assert answer.rule.expires is not None
        assert before + 29 * 86_400 < answer.rule.expires < before + 31 * 86_400
        path = Condition(("path",), "under", (f"{FOLDER}/src",))
        lines = Condition(("lines",), "is", (20,))
        assert replace(answer.rule, expires=None) == replace(TOOL, conditions=(path, lines, NO_OTHERS), scope="project")


@pytest.mark.parametrize(
    ("path", "bound"),
    [
        ("/home/me/other/a.txt", "under:/home/me/other"),
        ("/home/me/other/docs", "under:/home/me/other/docs"),
        ("/home/me/other/my.docs/", "under:/home/me/other/my.docs"),
        ("a.txt", "under:/home/me/proj"),
        ("/etc/hosts.conf", "/etc/hosts.conf"),
        ("/home/me/a.txt", "/home/me/a.txt"),
        ("../a.txt", "../a.txt"),
        ("~/proj/a.txt", "~/proj/a.txt"),
        ("@a.txt", "@a.txt"),
    ],
)
async def test_a_path_is_bound_to_its_folder_and_where_that_is_wide_to_itself(run: Run, path: str, bound: str) -> None:
    async with run(size=(120, 40)) as driver:
        await open_builder(driver, call_question(path=path))
        await wait_for_comparison(driver)
        assert f"files/write_file?path={bound}" in driver.text()
        await driver.pilot.press("escape", "escape")


async def test_a_folder_of_unknown_contents_binds_the_path_itself(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_builder(driver, call_question(path="/home/me/proj/src/[id]/page.tsx"))
        await wait_for_comparison(driver)
        assert "files/write_file?path=/home/me/proj/src/[id]/page.tsx" in driver.text()
        await driver.pilot.press("escape", "escape")


async def test_a_call_with_more_than_a_rule_can_show_leaves_the_longest_values_unbound(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending, _ = await open_builder(driver, call_question(a="x" * 190, b="y" * 180, c="z" * 180, d=5))
        await wait_for_comparison(driver)
        answer = await save_rule(driver, pending)
        assert [condition.argument for condition in answer.rule.conditions] == [("b",), ("c",), ("d",), ()]
        assert answer.rule.conditions[-1] == Condition((), "only", ("a",))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"script": "x" * 201}, "script"),
        ({"script": "one\ntwo", "quick": True}, "script"),
        ({"words": ["rm", "-rf"], "in": {"env": ["A=1"]}}, "words, in.env"),
        ({f"n{number:02}": number for number in range(17)}, "n12, n13, n14, others"),
    ],
)
async def test_a_rule_that_leaves_arguments_open_names_them_and_starts_with_an_hour_of_this_conversation(
    run: Run, arguments: dict[str, Any], named: str
) -> None:
    async with run(size=(120, 40)) as driver:
        pending, _ = await open_builder(driver, call_question(**arguments))
        await wait_for_comparison(driver)
        assert f"any value of {named} is allowed" in driver.text()
        answer = await save_rule(driver, pending)
        assert answer.rule.scope == "conversation"
        assert answer.rule.expires is not None
        assert answer.rule.expires < time.time() + 3_700


async def test_more_arguments_than_a_rule_can_name_make_it_a_narrow_one(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending, _ = await open_builder(driver, call_question(**{f"{'x' * 100}{number}": [] for number in range(9)}))
        answer = await save_rule(driver, pending)
        assert (answer.rule.conditions, answer.rule.scope) == ((), "conversation")


async def test_the_widest_rule_is_the_users_own_choice(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending, _ = await open_builder(driver)
        for title, words in (
            ("path", "any value"), ("lines", "any value"), ("other arguments", "allowed"), ("where", "everywhere"),
            ("expires", "never"),
        ):  # fmt: skip
            await choose_option(driver, title, words)
        await driver.until(lambda: "write_file of files runs without asking with any arguments" in driver.text())
        assert await save_rule(driver, pending) == AllowAlways()


async def test_conditions_scope_and_expiry_are_chosen_by_keyboard(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending, _ = await open_builder(driver)
        await choose_option(driver, "path", "in this folder")
        await choose_option(driver, "lines", "at most")
        await fill_next_field(driver, "100")
        await choose_option(driver, "where", "this project")
        await choose_option(driver, "expires", "1 hour")
        await wait_for_comparison(driver)
        assert "files/write_file?path=under:/home/me/proj/src&lines=<=100" in driver.text()
        before = time.time()
        answer = await save_rule(driver, pending)
        assert isinstance(answer, AllowRule)
        assert answer.rule.conditions == (
            Condition(("path",), "under", (f"{FOLDER}/src",)), Condition(("lines",), "<=", (100,)), NO_OTHERS,
        )  # fmt: skip
        assert (answer.rule.scope, answer.rule.tool) == ("project", "write_file")
        assert answer.rule.expires is not None
        assert before + 3500 < answer.rule.expires < before + 3700


async def test_a_rule_for_an_edited_call_is_about_the_edited_arguments(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = PendingQuestion(driver, call_question(path="src/a.txt", lines=20))
        await driver.enter_question()
        await driver.pilot.press("e", "tab", "backspace", "backspace", "7", "ctrl+s")
        await driver.until(lambda: "edited by you" in driver.text(), "the edited call")
        await driver.enter_question()
        assert "· s session" not in driver.text()
        await driver.pilot.press("A")
        await driver.until(lambda: type(driver.dialog).__name__ == "RuleBuilderDialog", "the rule builder")
        await choose_option(driver, "path", "any value")
        await wait_for_comparison(driver)
        assert "files/write_file?lines=7" in driver.text()
        answer = await save_rule(driver, pending)
        assert answer == AllowRule(answer.rule, {"path": "src/a.txt", "lines": 7})
        assert answer.rule.conditions == (Condition(("lines",), "is", (7,)), Condition((), "only", ("path",)))


@pytest.mark.parametrize(
    ("title", "words", "typed", "condition"),
    [
        ("kind", "one of", "a,b", Condition(("kind",), "in", ("a", "b"))),
        ("kind", "fits a pattern", "[ab]", Condition(("kind",), "re", ("[ab]",))),
        ("kind", "exactly this", "", Condition(("kind",), "is", ("a",))),
        ("force", "exactly this", "", Condition(("force",), "is", (False,))),
        ("deep.n", "at least", "2.5", Condition(("deep", "n"), ">=", (2.5,))),
        ("deep.n", "one of", "3, 4", Condition(("deep", "n"), "in", (3, 4))),
    ],
)
async def test_each_condition_is_formatted_as_intended(
    run: Run, title: str, words: str, typed: str, condition: Condition
) -> None:
    async with run(size=(120, 40)) as driver:
        pending, dialog = await open_builder(driver, call_question(kind="a", force=False, deep={"n": 3}))
        await choose_option(driver, title, words)
        if typed:
            await driver.pilot.press("tab")
            dialog.form.current_row.field_widget.text = typed
        await driver.until(lambda: dialog.rule is not None and condition in dialog.rule.conditions, "the rule")
        answer = await save_rule(driver, pending)
        assert [item for item in answer.rule.conditions if item.argument == condition.argument] == [condition]


async def test_a_rule_that_does_not_cover_the_current_call_cannot_be_saved(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending, _ = await open_builder(driver)
        await choose_option(driver, "lines", "at most")
        await fill_next_field(driver, "10")
        await driver.until(lambda: "does not match this call" in driver.text(), "the warning")
        await driver.pilot.press("ctrl+s")
        await driver.pilot.pause()
        assert pending.answer is None
        assert type(driver.dialog).__name__ == "RuleBuilderDialog"
        await driver.pilot.press("ctrl+u", "x", "ctrl+s")
        assert "not a number" in driver.text()
        assert pending.answer is None
        await driver.pilot.press("escape", "escape")


async def test_names_with_a_star_and_the_whole_server_can_be_covered(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending, _ = await open_builder(driver)
        await choose_option(driver, "covers", "tools whose names match")
        await driver.until(lambda: "Tools of files named write_* run without asking" in driver.text(), "it in words")
        assert (await save_rule(driver, pending)).rule.tool == "write_*"
    async with run(size=(80, 24)) as driver:
        pending, _ = await open_builder(driver)
        await choose_option(driver, "covers", "every tool of this server")
        assert (await save_rule(driver, pending)).rule.tool == ""


async def test_the_preview_shows_which_earlier_calls_the_rule_would_have_covered(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        driver.host.grants.made = [
            ("write_file", {"path": "/home/me/proj/b", "lines": 1}),
            ("write_file", {"path": "/etc/passwd", "lines": 1}),
            ("read", {}),
        ]
        await open_builder(driver)
        await driver.until(lambda: "0 of the 3 earlier calls" in driver.text(), "none")
        await choose_option(driver, "lines", "any value")
        await choose_option(driver, "path", "any value")
        await driver.until(lambda: "2 of the 3 earlier calls" in driver.text(), "both")
        await choose_option(driver, "path", "in this folder")
        await fill_next_field(driver, FOLDER)
        await driver.until(
            lambda: "1 of the 3 earlier calls" in (text := driver.text()) and "/home/me/proj/b" in text, "one"
        )
        assert "/etc/passwd" not in driver.text()
        await driver.pilot.press("escape", "escape")


async def test_a_withdrawn_question_closes_its_rule_builder(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending, dialog = await open_builder(driver)
        pending.worker.cancel()
        await driver.until(lambda: len(driver.app.screen_stack) == 1, "the chat")
        assert dialog not in driver.app.screen_stack
        later = PendingQuestion(driver, call_question())
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: later.answer == AllowOnce())
