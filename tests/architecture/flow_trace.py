"""Trace a flow through mcphost: the call chains that lead to its most important functions, across tasks."""

import asyncio
import sys
import threading
from collections.abc import Coroutine, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import mcphost

ROOT = str(Path(mcphost.__file__).parent) + "/"


class Hop(NamedTuple):
    """A function in a call chain: its module (relative to mcphost/, without `.py`) and its qualified name."""

    module: str
    function: str

    @property
    def label(self) -> str:
        """The label of the function in a diagram: its own name, or the class for a context manager."""
        name = self.function.removesuffix(".__aenter__")
        return name.rpartition(".")[2]


class FlowTrace:
    """The call chains that end at one of the landmark functions.

    The chain of a task continues that of the code which created the task.
    """

    def __init__(self, landmarks: Iterable[str]) -> None:
        self.chains: list[tuple[Hop, ...]] = []
        self._landmarks = frozenset(landmarks)
        self._reached: set[str] = set()
        self._origins: dict[asyncio.Task[Any], tuple[Hop, ...]] = {}
        self._hops: dict[CodeType, Hop | None] = {}

    @property
    def missing(self) -> frozenset[str]:
        """The landmark functions that were not called."""
        return self._landmarks - self._reached

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The functions in all chains, each once, in the order in which they were first reached."""
        return tuple(dict.fromkeys(hop for chain in self.chains for hop in chain))

    @property
    def modules(self) -> frozenset[str]:
        """The modules that contain the functions of all chains."""
        return frozenset(hop.module for hop in self.hops)

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record calls on this event loop, and on threads that are started during the block."""
        loop = asyncio.get_running_loop()
        factory = loop.get_task_factory()
        loop.set_task_factory(self._create_task)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            loop.set_task_factory(factory)

    def _create_task(self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **more: Any) -> Any:
        task = asyncio.Task(coro, loop=loop, **more)
        self._origins[task] = self._chain(sys._getframe(1))
        return task

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        if event != "call":
            return
        hop = self._hop(frame.f_code)
        if hop is not None and f"{hop.module}:{hop.function}" in self._landmarks:
            self._reached.add(f"{hop.module}:{hop.function}")
            chain = self._chain(frame)
            if chain not in self.chains:
                self.chains.append(chain)

    def _chain(self, frame: FrameType | None) -> tuple[Hop, ...]:
        """Return the functions of mcphost that were called from the origin of the current task down to *frame*."""
        hops: list[Hop] = []
        while frame is not None:
            hop = self._hop(frame.f_code)
            if hop is not None:
                hops.append(hop)
            frame = frame.f_back
        try:
            task = asyncio.current_task()
        except RuntimeError:  # not on the event loop's thread
            task = None
        origin = self._origins.get(task, ()) if task is not None else ()
        return (*origin, *reversed(hops))

    def _hop(self, code: CodeType) -> Hop | None:
        """Return the function of a code object, or None for comprehensions and code outside mcphost."""
        if code not in self._hops:
            name = code.co_qualname
            is_function = code.co_filename.startswith(ROOT) and not code.co_name.startswith("<")
            module = code.co_filename.removeprefix(ROOT).removesuffix(".py")
            self._hops[code] = Hop(module, name.replace(".<locals>", "")) if is_function else None
        return self._hops[code]
