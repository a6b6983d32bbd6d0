"""Execution of hooks and package managers, which communicate through standard input and output.

When a program has exited, any remaining processes of its process group are ended.
"""

import errno
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, Process

from mcphost.child_watcher import install_pidfd_watcher
from mcphost.config.hooks import DENIAL, HookOutput
from mcphost.errors import StartupError
from mcphost.redact import redact
from mcphost.serialization import replace
from mcphost.transport.process import build_environment, find_command
from mcphost.transport.watchdog import Watchdog

MAX_OUTPUT = 1_000_000
"""Maximum size of a hook's standard output in bytes; a hook that prints more has failed.

The rest is read and discarded, because an argument that the hook prints must not hide its exit code or its denial.
"""

_OVERLAP = 256
"""Bytes of discarded output that are searched again with the next piece, because a denial may be split."""

MAX_ERROR_OUTPUT = 4_000
STOP_TIMEOUT = 1.0

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_INTERPRETER = re.compile(rf"{_PYTHON.pattern}|(?:ba|da|k|z)?sh|node|perl|ruby")
_PYTHON_FLAGS = re.compile(r"-[BEIOPSbdqsuvx]+")
"""Options of Python that take no value and may precede the script."""

_CANNOT_OPEN = re.compile(r"can(?:'t|not) (?:open|find)|no such file|not a directory|permission denied", re.IGNORECASE)
"""Messages that interpreters print when they cannot open a script; after any other error, the script has run."""


class HookRunner:
    """Runner for the user's hooks and other programs that exchange documents through standard streams.

    Each process reads one document from standard input and may write one to standard output. The process is ended at
    its time limit, on cancellation, or when mcphost exits.
    """

    def __init__(self) -> None:
        self._watchdog = Watchdog()

    async def run(
        self,
        command: Sequence[str],
        folder: str,
        document: bytes,
        timeout: float,
        variables: Mapping[str, str] | None = None,
    ) -> HookOutput:
        """Run *command* in *folder* with *document* as its standard input, and return its output.

        The process is ended after *timeout* seconds, or on cancellation. Like an MCP server, the process inherits only
        a few harmless environment variables; *variables* are added to them. No errors are raised: failures such as a
        missing program, a script that its interpreter cannot open, or a timeout are described in the output.
        """
        environment = build_environment(variables or {})
        process: Process | None = None
        try:
            program = find_command(command[0], environment, folder)
            install_pidfd_watcher()
            # If the start were cancelled midway, asyncio would leave the pipes open (CPython 3.11).
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    (program, *command[1:]), cwd=folder or None, env=environment, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                )  # fmt: skip
        except StartupError as error:
            return HookOutput(failure=f"was not started: {error.message}", start_error=error.message)
        except (OSError, ValueError) as error:
            return HookOutput(failure=f"was not started: {error}", start_error=str(error))
        assert process is not None  # noqa: S101
        try:
            await self._watchdog.watch(process.pid)
            output = await _exchange(process, document, timeout)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
                self._watchdog.unwatch(process.pid)
        # In this case, Python, dash and perl exit with status 2, which usually means that the hook denies the call.
        is_refused = output.code and _CANNOT_OPEN.search(output.error_output)
        if is_refused and (why := _describe_unopened_script(command, folder)):
            return replace(output, failure=f"was not started: {why}", start_error=why)
        return output

    async def close(self) -> None:
        """End the watchdog process. Idempotent."""
        await self._watchdog.close()


def _describe_unopened_script(command: Sequence[str], folder: str) -> str:
    """Return the reason why the interpreter in *command* cannot open its script, or "" if it can.

    Also returns "" if *command* does not run an interpreter with a script. A relative script path is relative to
    *folder*.
    """
    name = os.path.basename(command[0])
    arguments = list(command[1:])
    while arguments and _PYTHON.fullmatch(name) and _PYTHON_FLAGS.fullmatch(arguments[0]):
        del arguments[0]
    if not arguments or arguments[0].startswith("-") or not _INTERPRETER.fullmatch(name):
        return ""
    path = os.path.join(folder, arguments[0])
    try:
        os.stat(path)
    except OSError as error:
        return f"{arguments[0]} cannot be opened: {error.strerror}"
    except ValueError:
        return ""
    return "" if os.access(path, os.R_OK) else f"{arguments[0]} cannot be opened: {os.strerror(errno.EACCES)}"


async def _exchange(process: Process, document: bytes, seconds: float) -> HookOutput:
    output, rest, errors = bytearray(), bytearray(), bytearray()
    is_too_long = is_denied = False

    async def write() -> None:
        assert process.stdin is not None  # noqa: S101
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, BrokenPipeError, ConnectionResetError):
            await process.stdin.send(document)
        with suppress(anyio.BrokenResourceError, BrokenPipeError, ConnectionResetError):
            await process.stdin.aclose()

    async def read_output(stream: ByteReceiveStream) -> None:
        nonlocal is_too_long, is_denied
        async for piece in stream:
            if len(output) <= MAX_OUTPUT:
                output.extend(piece)
                rest.extend(output[-_OVERLAP:])
            else:
                rest.extend(piece)
                is_denied = is_denied or DENIAL.search(rest) is not None
            del rest[:-_OVERLAP]
            is_too_long = len(output) > MAX_OUTPUT

    async def read_errors(stream: ByteReceiveStream) -> None:
        async for piece in stream:
            errors.extend(piece)
            del errors[:-MAX_ERROR_OUTPUT]

    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    with anyio.move_on_after(seconds) as limit:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            tasks.start_soon(read_output, process.stdout)
            tasks.start_soon(read_errors, process.stderr)
        await process.wait()
    code = process.returncode or 0  # known even if a program that the hook started keeps its output open
    said = redact(errors.decode(errors="replace").strip())
    if is_too_long:
        why = f"printed more than {MAX_OUTPUT // 1_000_000} MB"
        if is_denied:
            output += b'\n{"decision": "deny"}'
        return HookOutput(code, bytes(output), said, failure=why)
    if limit.cancelled_caught or process.returncode is None:
        return HookOutput(code, bytes(output), said, failure=f"did not end within {seconds:g} s")
    return HookOutput(code, bytes(output), said)


async def _end(process: Process) -> None:
    """End the process group, and close the pipes.

    If the process is still running, the group is sent SIGTERM first. After STOP_TIMEOUT seconds, or when the
    process has exited, any remaining processes of the group are sent SIGKILL.
    """
    if process.returncode is None:
        _signal_group(process, signal.SIGTERM)
        with anyio.move_on_after(STOP_TIMEOUT):
            await process.wait()
    _signal_group(process, signal.SIGKILL)
    with anyio.move_on_after(STOP_TIMEOUT):
        await process.wait()
    await process.aclose()


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
