"""Command `pipe`: the whole host for programs, as JSON lines on stdin and stdout."""

import argparse

from mcphost.cli import parser as parsing


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `pipe`."""
    parsing.add_model_flag(parser)
    parser.add_argument(
        "--open", action="store_true", help="open addresses in a browser ($BROWSER), once their question is answered"
    )


def run(command: str, args: argparse.Namespace) -> int:
    """Serve until `quit` or the end of the input."""
    from mcphost.cli.command_runner import run_command
    from mcphost.cli.parser import build_options

    options = build_options(args)

    async def work() -> int:
        from mcphost.auth.browser import open_url
        from mcphost.cli.bootstrap import open_host
        from mcphost.headless.pipe import PipeServer
        from mcphost.headless.question_answers import PipeFrontend

        frontend = PipeFrontend(open_url if args.open else None)
        async with open_host(options, frontend, open_url=frontend.open_url if args.open else None) as host:
            return await PipeServer(host, frontend).run()

    return run_command(options, work)
