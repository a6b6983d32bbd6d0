"""Execution of functions in worker threads, without keeping their arguments in memory after an error."""

from collections.abc import Callable
from typing import NoReturn, TypeVar, TypeVarTuple

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

MAX_PARSING_THREADS = 4
"""Maximum number of threads that parse requests of servers at the same time; see `run_in_parsing_thread`."""
_parsing_limiter: RunVar[CapacityLimiter] = RunVar("parsing limiter")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Failure:
    """An exception raised in a worker thread, passed out of the thread as a value."""

    __slots__ = ("_errors",)

    def __init__(self, error: BaseException) -> None:
        self._errors = [error]

    def reraise(self) -> NoReturn:
        """Raise the exception without keeping a reference to it; may be called only once."""
        error = self._errors.pop()
        try:
            raise error
        finally:
            del error


async def run_in_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a function in a worker thread; return its result or raise its error.

    A cancelled caller waits until the function has ended. Use this function instead of `anyio.to_thread.run_sync` if
    the arguments come from outside and may be large. After an error, `run_sync` leaves a reference cycle between the
    future and the traceback, which keeps the arguments in memory until the next full garbage collection. A server could
    then fill the memory by repeatedly sending large invalid input.
    """
    return await _run(None, function, *arguments)


async def run_in_parsing_thread(function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    """Run a function that parses a request from a server, like `run_in_thread`, but in at most four threads at once.

    Servers can send requests at any time. Without this limit, large requests from many servers would occupy all worker
    threads, and nothing else could use one, such as the database.
    """
    limiter = _parsing_limiter.get(None)
    if limiter is None:
        limiter = CapacityLimiter(MAX_PARSING_THREADS)
        _parsing_limiter.set(limiter)
    return await _run(limiter, function, *arguments)


async def _run(limiter: CapacityLimiter | None, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
    result = await to_thread.run_sync(_catch, function, *arguments, limiter=limiter)
    if isinstance(result, _Failure):
        result.reraise()
    return result


def _catch(function: Callable[[*Ts], T], *arguments: *Ts) -> T | _Failure:
    try:
        return function(*arguments)
    except BaseException as error:  # noqa: BLE001 - raised again in run_in_thread
        return _Failure(error)
