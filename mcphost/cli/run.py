"""mcphost run: one turn without a screen."""

import argparse
import sys
from typing import TYPE_CHECKING

from mcphost.cli import parser as parsing
from mcphost.cli.errors import innermost
from mcphost.errors import McpHostError, UsageError

if TYPE_CHECKING:
    from mcphost.config.schema import HostConfig

PROMPT_LIMIT = 4_000_000


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of `run`."""
    parser.add_argument("prompt", metavar="PROMPT", help="what to say to the model; - reads it from standard input")
    parsing.add_model(parser)
    parser.add_argument("--output", choices=("text", "json", "events"), default="text", help="how the answer comes")
    parser.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="calls that may run: SERVER, SERVER/TOOL, SERVER/PREFIX*, and conditions: 'fs/read?path=under:/folder'",
    )
    parser.add_argument(
        "--pass-results",
        action="append",
        metavar="RULE",
        help="calls whose results the model may have unread, though their server says reviewResults",
    )
    parser.add_argument(
        "--resume",
        metavar="ID",
        default=argparse.SUPPRESS,
        help="go on with that conversation; its id may be shortened",
    )
    parser.add_argument("--yes", action="store_true", help="every call may run; refused while a server is not approved")
    parser.add_argument(
        "--max-rounds",
        type=parsing.count,
        metavar="N",
        help="rounds of tool calls at most; exit 7 when they are used up",
    )


def run(command: str, given: argparse.Namespace) -> int:
    """Run it."""
    from mcphost.cli.command_runner import resume, run
    from mcphost.cli.options import options_of
    from mcphost.headless.run import refused

    options = options_of(given)
    output = given.output

    async def work() -> int:
        from mcphost.cli.bootstrap import open_host
        from mcphost.headless.allow_rules import check_servers, parse_rules
        from mcphost.headless.run import RunFront, run_turn
        from mcphost.serialization import replace

        def with_rules(config: "HostConfig") -> "HostConfig":
            check_servers((*options.allow, *options.pass_results), (server.name for server in config.servers))
            return replace(config, allow=rules, passes=passes)

        try:
            rules, passes = parse_rules(options.allow), parse_rules(options.pass_results)
            prompt = _prompt(given.prompt)
            front = RunFront(yes=options.yes)
            async with open_host(options, front, only=with_rules) as host:
                if options.resume is not None:
                    await resume(host, options.resume)
                return await run_turn(host, prompt, output=output, quiet=options.quiet, yes=options.yes)
        except BaseException as error:
            inner = innermost(error)
            refused(inner if isinstance(inner, McpHostError) else _other(inner), output)
            raise

    return run(options, work)


class _Interrupted(McpHostError):
    exit_code = 130


def _other(error: BaseException) -> McpHostError:
    """What the last line says of an end that is no error of ours: an interrupt, or a bug."""
    if isinstance(error, Exception):
        return McpHostError(f"mcphost made a mistake ({type(error).__name__}).", "The log has the details.")
    return _Interrupted("Interrupted.")


def _prompt(text: str) -> str:
    if text != "-":
        if not text.strip():
            raise UsageError("The prompt is empty.", "Say something: mcphost run 'What is 2 + 40?'")
        return text
    raw = sys.stdin.buffer.read(PROMPT_LIMIT + 1)
    if len(raw) > PROMPT_LIMIT:
        raise UsageError(f"The prompt on standard input is over {PROMPT_LIMIT // 1_000_000} MB.")
    read = raw.decode("utf-8", "replace")
    if not read.strip():
        raise UsageError("Standard input holds no prompt.")
    return read
