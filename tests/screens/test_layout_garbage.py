"""Tests that a long form leaves little to the garbage collector, which stops the program while it collects."""

import gc
from collections.abc import Generator
from time import monotonic
from typing import Any

import pytest
from textual.map_geometry import MapGeometry

from mcphost.host.questions.forms import parse_form
from mcphost.host.questions.questions import FillForm
from mcphost.serialization import Raw, dumps
from mcphost.tui.idle_garbage_collection import collect_garbage_in_pauses
from mcphost.tui.layout_garbage import free_layouts_at_once
from tests.garbage import leave_out_existing_objects
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio

FIELDS = 100
PAGES = 8
LAYOUTS = 10


@pytest.fixture
def full_collections() -> Generator[list[str]]:
    """Return a list to which each full collection is appended."""
    seen: list[str] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(phase)

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


async def open_long_form(driver: AppDriver) -> PendingQuestion:
    properties = {
        f"field{number}": {"type": "string", "title": f"Field {number}", "description": "d" * 200, "default": "x" * 100}
        for number in range(FIELDS)
    }
    fields = parse_form(Raw(dumps({"type": "object", "properties": properties}).encode()))
    question = PendingQuestion(driver, FillForm(server="s", why="w", message="m", fields=fields))
    await driver.enter_question()
    await driver.pilot.pause()
    return question


def count_geometries() -> int:
    return sum(type(one) is MapGeometry for one in gc.get_objects())


async def test_a_layout_frees_the_layout_before_it_without_the_garbage_collector(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_long_form(driver)
        await driver.pilot.pause()
        gc.collect()
        before = count_geometries()
        gc.disable()
        try:
            for _ in range(LAYOUTS):
                driver.app.screen.refresh(layout=True)
                await driver.pilot.pause()
            assert before <= count_geometries() < before * 2
        finally:
            gc.enable()


async def test_each_key_is_noted_as_input(run: Run) -> None:
    async with run() as driver:
        before = monotonic()
        assert driver.app.last_input_at < before
        await driver.pilot.press("a")
        assert driver.app.last_input_at >= before


async def test_no_full_collection_stops_the_pages_of_a_long_form(run: Run, full_collections: list[str]) -> None:
    async with run(size=(120, 40)) as driver:
        with leave_out_existing_objects():  # as the chat does after its start
            collecting = driver.app.run_worker(collect_garbage_in_pauses(monotonic))  # a busy machine sends keys late
            await driver.pilot.pause()
            full_collections.clear()
            await open_long_form(driver)
            for _ in range(PAGES):
                await driver.pilot.press("pagedown")
                await driver.pilot.pause()
            assert full_collections == []
            collecting.cancel()


def test_layouts_are_changed_only_once() -> None:
    from textual._compositor import Compositor

    free_layouts_at_once()
    changed = vars(Compositor)["_arrange_root"]
    free_layouts_at_once()
    assert vars(Compositor)["_arrange_root"] is changed
