"""Resource limits (rlimits) for worker processes that handle untrusted input."""

import signal
from contextlib import suppress


def apply_worker_limits(max_bytes: int) -> None:
    """Disable core files, limit the address space to *max_bytes*, and ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _set_rlimits(RLIMIT_CORE=0, RLIMIT_AS=max_bytes)


def forbid_opening_files() -> None:
    """Prevent this process from opening files or sockets and from writing to files."""
    _set_rlimits(RLIMIT_NOFILE=0, RLIMIT_FSIZE=0)


def limit_data_memory(max_bytes: int) -> None:
    """Limit the data memory of this process to *max_bytes*; allocations beyond that raise MemoryError.

    Use this for processes with threads and shared libraries, whose address space is much larger than their data.
    """
    _set_rlimits(RLIMIT_CORE=0, RLIMIT_DATA=max_bytes)


def _set_rlimits(**limits: int) -> None:
    try:
        import resource
    except ImportError:  # not Unix
        return
    for name, limit in limits.items():
        with suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, name), (limit, limit))
