"""Tests for a terminal that disappears without SIGHUP, as for a program without a controlling terminal."""

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path


def test_a_terminal_that_closes_without_a_signal_ends_the_program(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    places = {f"MCPHOST_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    painted = threading.Event()

    def read() -> None:
        seen = b""
        try:
            while True:
                seen += os.read(ours, 65536)
                if b"demo (not an AI)" in seen and b"1/1" in seen:
                    painted.set()
                    return
        except OSError:
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    # A separate session that never made the terminal its controlling one.
    with subprocess.Popen(
        [sys.executable, "-m", "mcphost", "demo"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env={**os.environ, **places, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
    ) as process:
        os.close(theirs)
        try:
            assert painted.wait(20)
            reader.join(5)
            os.close(ours)
            assert process.wait(15) == 0
        finally:
            process.kill()
