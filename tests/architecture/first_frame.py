"""Run the real program in a pseudo-terminal, and record `sys.modules` when it writes its first frame.

When run as a script, it is the recorder inside the program: `python -m tests.architecture.first_frame NOTES
ARGUMENT...`.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

SERVERS = 10
SECONDS = 120
# A frame moves the cursor and colours cells; set-up sequences before it are far shorter.
FRAME_BYTES = 1000


def modules_at_first_frame(folder: Path) -> set[str]:
    """Return the full names of the modules that are loaded when `mcphost chat` draws its first frame."""
    notes = folder / "modules.json"
    server = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}
    servers = {f"server{number}": server for number in range(SERVERS)}
    config = folder / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    homes = {f"MCPHOST_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    command = [
        sys.executable,
        "-m",
        "tests.architecture.first_frame",
        str(notes),
        "chat",
        "--mcp-config",
        str(config),
        "--model",
        "openai/x",
        "--api-base",
        "http://127.0.0.1:9/v1",
    ]
    environment = {**os.environ, **homes, "TERM": "xterm-256color", "COLORTERM": "truecolor", "OPENAI_API_KEY": "none"}
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    seen = b""
    try:
        deadline = time.monotonic() + SECONDS
        while not notes.exists() and time.monotonic() < deadline and process.poll() is None:
            seen += _read(master, 0.1)
    finally:
        _kill(process, master)
    assert notes.exists(), f"no frame within {SECONDS} s; the terminal got {seen[-2000:]!r}"
    return set(json.loads(notes.read_text()))


def _read(master: int, seconds: float) -> bytes:
    if not select.select([master], [], [], seconds)[0]:
        return b""
    try:
        return os.read(master, 65536)
    except OSError:  # the other side is closed
        return b""


def _kill(process: subprocess.Popen[bytes], master: int) -> None:
    process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        _read(master, 0.1)  # a full pseudo-terminal would delay its exit
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    os.close(master)


def _record_modules(notes: Path) -> None:
    """Patch Textual's driver to write `sys.modules` to a file before it writes the first frame."""
    from textual.drivers.linux_driver import LinuxDriver

    write = LinuxDriver.write

    def watched(self: Any, data: str) -> None:
        if len(data) >= FRAME_BYTES and not notes.exists():
            draft = notes.with_suffix(".draft")
            draft.write_text(json.dumps(sorted(sys.modules)))
            draft.rename(notes)
        write(self, data)

    LinuxDriver.write = watched


if __name__ == "__main__":
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # a session of its own, so that the program has a controlling terminal
    notes_path, *program_arguments = sys.argv[1:]
    _record_modules(Path(notes_path))
    sys.argv = ["mcphost", *program_arguments]
    from mcphost.__main__ import main

    raise SystemExit(main())
