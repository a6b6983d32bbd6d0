"""Runs a coroutine function on an event loop of its own, from a test that is not asynchronous itself."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


def alone(work: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    """What `work(*args)` gives. On a new thread: anyio's pytest plugin may have left its mark on this one's context."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(partial(anyio.run, work, *args, **options)).result()
