"""Entry point of mcphost: parses the command line, runs the command, and prints errors."""

import errno
import os
import resource
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

from mcphost.cli.parser import COMMANDS, EDIT_ACTIONS, command_parser, merge_flags, split_command
from mcphost.errors import McpHostError, UsageError, unwrap_error
from mcphost.translation import _, set_language_later

BROKEN_PIPE_EXIT_CODE = 141
"""Exit code if the reader of the output is gone before the command has a result: 128 + SIGPIPE, as in a shell."""
CommandFn = Callable[[str, Namespace], int]


def main(argv: list[str] | None = None) -> int:
    """Run one command line and return its exit code. Never raises.

    *argv* are the arguments after the program's name; the default is `sys.argv[1:]`.
    """
    arguments = sys.argv[1:] if argv is None else argv
    _disable_core_files()
    _prepare_streams()
    set_language_later(partial(_choose_language, arguments))
    code = 0
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except SystemExit as exit_error:  # argparse exits after --help and --version
        return exit_error.code if isinstance(exit_error.code, int) else 0
    except BrokenPipeError:
        _discard_output()
        return code or BROKEN_PIPE_EXIT_CODE
    except KeyboardInterrupt:
        return 130
    except BaseException as error:  # noqa: BLE001 - the outermost boundary: no traceback reaches a user
        return _report_error(error, arguments)
    return code


def _run(arguments: list[str]) -> int:
    global_flags, command, rest = split_command(arguments)
    if hasattr(global_flags, "resume") and command not in ("chat", "run"):
        raise UsageError("--resume belongs to: mcphost chat, mcphost run")
    run, args = parse_arguments(command, rest)
    return run(command, merge_flags(global_flags, args))


def _choose_language(arguments: list[str]) -> str:
    from mcphost.cli.language import choose_command_language

    return choose_command_language(arguments)


def parse_arguments(command: str, rest: list[str]) -> tuple[CommandFn, Namespace]:
    """Return the function that runs a command, and the parsed arguments for it.

    *rest* are the words after the command. Raises UsageError if they are not valid arguments.
    """
    if command == "servers" and rest and rest[0] in EDIT_ACTIONS:
        return _parse_server_edit(rest[0], rest[1:])
    module: Any = import_module(module_of(command))
    parser = command_parser(command)
    module.add_arguments(command, parser)
    return module.run, parser.parse_words(parser.prepare(rest))


def module_of(command: str, action: str = "") -> str:
    """Return the full name of the module that implements a command or, if *action* is given, a `servers` action.

    *action* must be an action that defines its own arguments, such as "add".
    """
    name = EDIT_ACTIONS[action][0] if action else COMMANDS[command][0]
    return f"mcphost.cli.{name}"


def _parse_server_edit(action: str, rest: list[str]) -> tuple[CommandFn, Namespace]:
    """Parse the command line of a `servers` action that defines its own arguments, such as `add NAME -- COMMAND`.

    *rest* are the words after the action. Returns the function that runs the action, and the parsed arguments. Raises
    UsageError if *rest* does not contain valid arguments.
    """
    from mcphost.cli import edit_servers

    if EDIT_ACTIONS[action][0] != "edit_servers":
        module: Any = import_module(module_of("servers", action))
        parser = command_parser("servers", action)
        module.add_arguments(action, parser)
        args = parser.parse_words(rest)
        args.action = action
        return module.run, args
    arguments, command_line = edit_servers.split_command_line(action, rest)
    parser = command_parser("servers", action)
    edit_servers.add_arguments(action, parser)
    try:
        args = parser.parse_words(arguments)
    except UsageError as error:
        if action == "add" and error.message.startswith("Unrecognized arguments") and not command_line:
            raise UsageError(error.message, f"Arguments of the server's program come after --. {error.hint}") from error
        raise
    args.action, args.command_line = action, command_line
    return edit_servers.run, args


def _disable_core_files() -> None:
    """Disable core dumps, because the memory of this process holds tokens, keys and passphrases.

    Child processes inherit the limit, and may raise it again for themselves.
    """
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _prepare_streams() -> None:
    """Connect closed standard streams to the null device; make output replace characters that it cannot encode."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        while (null_device := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass  # no other file may get the number of a standard stream
        sys.stdin = sys.stdin or os.fdopen(null_device, "r", closefd=False)
        sys.stdout = sys.stdout or os.fdopen(null_device, "w", closefd=False)
        sys.stderr = sys.stderr or os.fdopen(null_device, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _discard_output() -> None:
    """Redirect stdout to the null device, so that the flush at exit does not fail if the pipe is closed."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, 1)
    os.close(null_device)


def _report_error(error: BaseException, arguments: list[str]) -> int:
    from mcphost.cli.printing import print_error, print_note

    inner = unwrap_error(error)
    if isinstance(inner, McpHostError):
        print_error(inner)
        if "debug" in arguments:
            print_note(_("More is in the log: {file}").format(file=_log_error(inner)))
        return inner.exit_code
    if isinstance(inner, KeyboardInterrupt):
        return 130
    if isinstance(inner, BrokenPipeError):
        _discard_output()
        return BROKEN_PIPE_EXIT_CODE
    if isinstance(inner, OSError) and inner.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO) and not inner.filename:
        _discard_output()
        print_note(
            _("The output cannot be written: {error}. Choose another place for it.").format(error=inner.strerror)
        )
        return 2
    log_path = _log_error(error)
    print_error(McpHostError(
        f"mcphost crashed ({type(inner).__name__}).",
        f"The log has the details: {log_path}" if log_path else "The log cannot be written, so there are no details.",
    ))  # fmt: skip
    return 1


def _log_error(error: BaseException) -> str:
    import logging

    from mcphost import log

    path = log.log_file() if logging.getLogger().handlers else log.configure_logging()
    logging.getLogger("mcphost").error("command failed", exc_info=error)
    return str(path) if path else ""
