"""mcphost pipe: everything for programs, over JSON lines on stdin and stdout."""

import argparse

from mcphost.cli import parser as parsing


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of `pipe`."""
    parsing.add_model(parser)
    parser.add_argument(
        "--open", action="store_true", help="open addresses in a browser ($BROWSER), once their question is answered"
    )


def run(command: str, given: argparse.Namespace) -> int:
    """Serve until `quit` or the end of the input."""
    from mcphost.cli.command_runner import run
    from mcphost.cli.options import options_of

    options = options_of(given)

    async def work() -> int:
        from mcphost.auth.browser import open_url
        from mcphost.cli.bootstrap import open_host
        from mcphost.headless.pipe import Pipe
        from mcphost.headless.question_answers import PipeFront

        front = PipeFront(open_url if given.open else None)
        async with open_host(options, front, open_url=front.open_url if given.open else None) as host:
            return await Pipe(host, front).run()

    return run(options, work)
