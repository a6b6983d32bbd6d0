"""Run a command on a terminal and type answers to its prompts."""

import os
import pty
import select
from collections.abc import Sequence

from tests.flows.program import Program

PROMPT_SECONDS = 30


def answer_prompts(program: Program, answers: Sequence[tuple[str, str]], *arguments: str) -> tuple[int, str]:
    """Run a command and type each answer when its prompt appears; return the exit code and the complete output."""
    master, slave = pty.openpty()
    shown = ""
    with program.start(*arguments, stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        try:
            start = 0
            for prompt, text in answers:
                while prompt not in shown[start:]:
                    more = _read(master)
                    assert more, f"{prompt!r} was not asked: {shown}"
                    shown += more
                start = shown.index(prompt, start) + len(prompt)
                os.write(master, f"{text}\n".encode())
            while more := _read(master):
                shown += more
            code = process.wait(PROMPT_SECONDS)
        finally:
            process.kill()
    os.close(master)
    return code, shown


def _read(master: int) -> str:
    """Return the next piece of output, or "" when the command has ended."""
    ready, _, _ = select.select([master], [], [], PROMPT_SECONDS)
    assert ready, "nothing more was shown"
    try:
        return os.read(master, 65_536).decode(errors="replace")
    except OSError:  # the other end is closed
        return ""
