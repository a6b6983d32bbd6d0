"""Execution of requests whose responses must not be lost when the caller is cancelled, such as token requests."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

GRACE_SECONDS = 3.0
"""Seconds that a request may still run after its caller was cancelled, so that it cannot delay the exit for longer."""

T = TypeVar("T")


async def finish_despite_cancellation(work: Callable[[], Awaitable[T]]) -> T:
    """Await *work* and return its result, or raise its exception.

    If the caller is cancelled, *work* continues for up to GRACE_SECONDS. If *work* ends in that time, its result is
    returned, and the caller is cancelled at its next await. If *work* does not end in that time, it is cancelled too.
    """
    results: list[T] = []
    errors: list[Exception] = []
    protected = anyio.CancelScope(shield=True)

    async def limit_after_cancellation() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            protected.deadline = anyio.current_time() + GRACE_SECONDS

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(limit_after_cancellation)
            with protected:
                try:
                    results.append(await work())
                except Exception as error:  # noqa: BLE001 - raised below, and not as part of an exception group
                    errors.append(error)
            tasks.cancel_scope.cancel()
    except anyio.get_cancelled_exc_class():
        if not (results or errors):
            raise
    if errors:
        raise errors[0]
    if not results:
        await checkpoint()  # the time is over; this raises the cancellation
    return results[0]
