"""Tests for undo and redo in the composer after pasting and deleting."""

import random

import pytest
from textual import events

from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("lines", [2, 9, 10, 11, 12, 29])
async def test_a_paste_of_many_lines_is_undone_and_redone(run: Run, lines: int) -> None:
    pasted = "\n".join(f"line {number}" for number in range(lines))
    async with run() as driver:
        prompt = driver.app.chat.query_one("#prompt")
        driver.app.post_message(events.Paste(pasted))
        await driver.until(lambda: prompt.text == pasted, "the paste")
        await driver.pilot.press("ctrl+z")
        await driver.until(lambda: prompt.text == "", "undone")
        prompt.redo()
        await driver.until(lambda: prompt.text == pasted, "redone")


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_of_pastes_deletions_undo_and_redo_keeps_the_program_running(run: Run, seed: int) -> None:
    chance = random.Random(seed)
    async with run() as driver:
        prompt = driver.app.chat.query_one("#prompt")
        for _ in range(40):
            match chance.randrange(6):
                case 0:
                    prompt.insert("\n".join("word " * chance.randrange(30) for _ in range(chance.randrange(1, 25))))
                case 1:
                    prompt.select_all()
                    prompt.action_delete_left()
                case 2:
                    prompt.move_cursor(prompt.document.end)
                    prompt.action_delete_to_start_of_line()
                case 3:
                    prompt.redo()
                case _:
                    prompt.undo()
            await driver.pilot.pause()
        prompt.clear()
        await driver.pilot.press("o", "k")
        await driver.until(lambda: prompt.text == "ok")
