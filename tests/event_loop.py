"""Run a coroutine function on a new event loop, and wait for a condition by polling."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


def run_in_new_thread(work: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    """Run `work(*args, **options)` on an event loop in a new thread, and return its result.

    A new thread is needed because anyio's pytest plugin changes the context of the current one.
    """
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(partial(anyio.run, work, *args, **options)).result()


async def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until *condition* returns True, checking it repeatedly.

    Raises TimeoutError after *seconds*.
    """
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - processes and sockets set no event of ours
            await anyio.sleep(0.005)
