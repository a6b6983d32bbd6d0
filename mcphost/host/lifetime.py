"""The lifetime of the host: background tasks, cleanup functions, and components created on first use."""

from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

T_co = TypeVar("T_co", covariant=True)


class Lifetime:
    """The root task group of the host and its cleanup functions.

    Tasks added before the host is entered with `async with` start when it is entered. On exit, all tasks are
    cancelled, and then the cleanup functions run in reverse order of registration.
    """

    def __init__(self) -> None:
        self.tasks: TaskGroup | None = None
        """The root task group, None before the host is entered."""
        self._waiting: list[tuple[Callable[..., Coroutine[Any, Any, object]], tuple[Any, ...], str]] = []
        self._closers: list[Callable[[], Awaitable[None] | None]] = []

    @property
    def is_open(self) -> bool:
        """Whether the host has been entered with `async with`."""
        return self.tasks is not None

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, object]], *args: Any, name: str) -> None:
        """Start a background task; it is cancelled when the host exits."""
        if self.tasks is None:
            self._waiting.append((function, args, name))
        else:
            self.tasks.start_soon(function, *args, name=name)

    def on_close(self, close: Callable[[], Awaitable[None] | None]) -> None:
        """Register a cleanup function that runs after all tasks have ended."""
        self._closers.append(close)

    async def __aenter__(self) -> Self:
        self.tasks = await anyio.create_task_group().__aenter__()
        for function, args, name in self._waiting:
            self.tasks.start_soon(function, *args, name=name)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            if self.tasks is None:
                return None
            self.tasks.cancel_scope.cancel()
            return await self.tasks.__aexit__(kind, error, trace)
        finally:
            with anyio.CancelScope(shield=True):
                for close in reversed(self._closers):
                    if (closing := close()) is not None:
                        await closing


class Lazy(Generic[T_co]):
    """Wrapper around a component of the host that is imported and created on first use."""

    def __init__(self, create: Callable[[], T_co]) -> None:
        self._create = create
        self.created: T_co | None = None
        """The component, None until its first use."""

    def get(self) -> T_co:
        """Return the component, which is created on the first call and then cached."""
        if self.created is None:
            self.created = self._create()
        return self.created
