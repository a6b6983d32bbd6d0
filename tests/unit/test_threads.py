"""Tests for functions that run in worker threads."""

import gc
import weakref
from collections.abc import Generator
from threading import get_ident

import pytest

from mcphost.threads import run_in_thread

pytestmark = pytest.mark.anyio


class Large:
    """Stands for a large argument; a test sees when it is freed."""


@pytest.fixture
def _no_cycle_collection() -> Generator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_a_function_runs_in_another_thread_and_returns_its_result() -> None:
    here = get_ident()
    assert await run_in_thread(lambda number: (number + 1, get_ident() != here), 1) == (2, True)


@pytest.mark.usefixtures("_no_cycle_collection")
async def test_an_error_in_a_thread_frees_the_arguments_at_once() -> None:
    large = Large()
    is_alive = weakref.ref(large)

    def fail(argument: Large) -> None:
        raise ValueError(type(argument).__name__)

    message = ""
    try:  # not pytest.raises, which keeps the error
        await run_in_thread(fail, large)
    except ValueError as error:
        message = str(error)
    del large
    await run_in_thread(int)  # the same thread has finished the first function then
    assert (message, is_alive()) == ("Large", None)
