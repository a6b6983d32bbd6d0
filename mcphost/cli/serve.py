"""Command `serve`: shows the chat in a browser on this machine; requires the extra `mcphost[serve]`."""

import argparse
import sys

from mcphost import log
from mcphost.cli import parser as parsing
from mcphost.cli.parser import build_options
from mcphost.errors import UsageError


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `serve` command to *parser*: those of the `chat` command, and the port."""
    parsing.add_model_flag(parser)
    parsing.add_resume_flag(parser)
    parser.add_argument(
        "--port", type=port, default=0, metavar="N", help="the port to listen on (default: any free one)"
    )
    parser.add_argument("--demo", action="store_true", help="serve the demo instead of the chat")


def run(command: str, args: argparse.Namespace) -> int:
    """Serve chats on 127.0.0.1 until Ctrl+C is pressed. Raises UsageError if the extra is not installed."""
    try:
        from mcphost.cli.chat_web_server import serve_chats
    except ImportError as error:
        raise UsageError(
            '`serve` needs the optional extra "serve".',
            "Install it: uv tool install '.[serve]', in the folder of mcphost.",
        ) from error
    log.configure_logging("info" if args.demo else build_options(args, one_shot=False).log_level)
    if not args.demo:
        _check_chat_flags(args)
    return serve_chats(chat_command(args), args.port)


def _check_chat_flags(args: argparse.Namespace) -> None:
    """Check that a chat can start with these flags: for example, that the profile exists.

    Raises UsageError, ConfigError or StoreError if it cannot start, and KeyboardInterrupt if a signal interrupts the
    check.
    """
    from mcphost.cli.command_runner import find_conversation, remove_model, run_command

    options = build_options(args, one_shot=False)

    async def work() -> int:
        from mcphost.cli.build_host import open_host
        from mcphost.host.questions.frontend import RefusingFrontend

        async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
            if options.resume is not None:
                await find_conversation(host, options.resume)
        return 0

    if run_command(options, work):
        raise KeyboardInterrupt


def port(text: str) -> int:
    """Parse an unprivileged port number (1024 to 65535), or 0 for any free port."""
    value = int(text)
    if value and not 1024 <= value <= 65_535:
        raise argparse.ArgumentTypeError("not 0 and not between 1024 and 65535")
    return value


def chat_command(args: argparse.Namespace) -> list[str]:
    """Return the command line that starts one chat with the flags in *args*.

    The command line contains -P, so that Python does not import modules from the current folder, which may belong to an
    untrusted project.
    """
    command = [sys.executable, "-P", "-m", "mcphost"]
    for name, value in vars(args).items():
        flag = f"--{name.replace('_', '-')}"
        if name in ("port", "demo"):
            continue
        if isinstance(value, list):
            command += [f"{flag}={one}" for one in value]  # pyright: ignore[reportUnknownVariableType]
        elif value is True:
            command.append(flag)
        elif value not in (None, False):
            command.append(f"{flag}={value}")
    return [*command, "demo" if args.demo else "chat"]
