"""A group of processes that ignore SIGTERM, and a helper that waits until processes have ended."""

from contextlib import suppress

from tests.event_loop import wait_until
from tests.processes import is_alive

# A leader that ignores SIGTERM with a child that does, too; its pid is the group's id.
STUBBORN_SCRIPT = (
    "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "child = subprocess.Popen([sys.executable, '-c', 'import signal, time;"
    " signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(120)']);"
    "print(child.pid, flush=True); time.sleep(120)"
)


async def wait_until_gone(*pids: int, seconds: float = 10) -> bool:
    with suppress(TimeoutError):
        await wait_until(lambda: not any(is_alive(pid) for pid in pids), seconds)
    return not any(is_alive(pid) for pid in pids)
