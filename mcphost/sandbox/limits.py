"""What a child process that reads what strangers wrote may use, said to the kernel from inside of it."""

import signal
from contextlib import suppress


def confine(memory: int) -> None:
    """No core files, at most so many bytes of memory, no end by the keys of a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(RLIMIT_CORE=0, RLIMIT_AS=memory)


def shut_out() -> None:
    """From now on this process opens no file and no socket, and writes into none that has a size."""
    _limit(RLIMIT_NOFILE=0, RLIMIT_FSIZE=0)


def limit_data(memory: int) -> None:
    """At most so many bytes of data; more than that fails as MemoryError. For a process with threads and libraries."""
    _limit(RLIMIT_CORE=0, RLIMIT_DATA=memory)


def _limit(**limits: int) -> None:
    try:
        import resource
    except ImportError:  # not a Unix
        return
    for name, most in limits.items():
        with suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))
