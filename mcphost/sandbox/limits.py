"""What a child process that reads what strangers wrote may use, said to the kernel from inside of it."""

import signal
from contextlib import suppress


def apply_worker_limits(max_bytes: int) -> None:
    """No core files, at most so many bytes of memory, no end by the keys of a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _set_rlimits(RLIMIT_CORE=0, RLIMIT_AS=max_bytes)


def forbid_opening_files() -> None:
    """From now on this process opens no file and no socket, and writes into none that has a size."""
    _set_rlimits(RLIMIT_NOFILE=0, RLIMIT_FSIZE=0)


def limit_data_memory(max_bytes: int) -> None:
    """At most so many bytes of data; more than that fails as MemoryError. For a process with threads and libraries."""
    _set_rlimits(RLIMIT_CORE=0, RLIMIT_DATA=max_bytes)


def _set_rlimits(**limits: int) -> None:
    try:
        import resource
    except ImportError:  # not a Unix
        return
    for name, most in limits.items():
        with suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (most, most))
