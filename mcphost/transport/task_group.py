"""A task group that ends with its block and does not wrap the block's exception."""

from types import TracebackType

import anyio
from anyio.abc import TaskGroup


class CancellingTaskGroup:
    """A task group whose exit cancels what still runs.

    A plain task group wraps the block's exception in an ExceptionGroup, so `except RequestRefused` around a session
    would miss it.
    """

    async def __aenter__(self) -> TaskGroup:
        self._group = anyio.create_task_group()
        return await self._group.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self._group.cancel_scope.cancel()
        if error is None or isinstance(error, Exception):
            await self._group.__aexit__(None, None, None)
            return None
        return await self._group.__aexit__(kind, error, trace)
