"""Commands `run`, which runs one turn without the UI, and `pipe`, which lets another program control mcphost."""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from mcphost.cli import parser as parsing
from mcphost.cli.parser import build_options
from mcphost.cli.printing import (
    create_markdown_stream,
    end_status,
    format_progress,
    set_status,
    update_status,
)
from mcphost.errors import ConfigError, McpHostError, UsageError, unwrap_error

if TYPE_CHECKING:
    from mcphost.config.schema import HostConfig
    from mcphost.host.events import ToolProgress

MAX_PROMPT_BYTES = 4_000_000


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `run` or `pipe` command to *parser*."""
    if command == "pipe":
        parsing.add_model_flag(parser)
        parsing.add_trust_flag(parser)
        parser.add_argument(
            "--open",
            action="store_true",
            help="open addresses in a browser ($BROWSER) after their question is answered",
        )
        _add_compact_flag(parser, ("ask", "auto", "never"))
        return
    parser.add_argument("prompt", metavar="PROMPT", help="the message to the model; - reads it from standard input")
    parsing.add_model_flag(parser)
    parsing.add_trust_flag(parser)
    _add_input_flags(parser)
    parser.add_argument("--output", choices=("text", "json", "events"), default="text", help="the output format")
    parser.add_argument(
        "--allow",
        action="append",
        metavar="RULE",
        help="allow these calls: SERVER, SERVER/TOOL, SERVER/PREFIX*, and conditions: 'fs/read?path=under:/folder'",
    )
    parser.add_argument(
        "--pass-results",
        action="append",
        metavar="RULE",
        help="pass the results of these calls to the model without review, even if the server has reviewResults",
    )
    parser.add_argument(
        "--resume",
        metavar="ID",
        default=argparse.SUPPRESS,
        help="continue this conversation; a prefix of its id is enough",
    )
    parsing.add_continue_flag(parser)
    parser.add_argument("--yes", action="store_true", help="allow every call; refused while a server is not approved")
    parser.add_argument(
        "--max-rounds",
        type=parsing.count,
        metavar="N",
        help="maximum rounds of tool calls; exit code 7 when they are used up",
    )
    parser.add_argument(
        "--max-cost",
        type=parsing.dollars,
        metavar="DOLLARS",
        help="budget of the turn; exit code 7 before a request that would exceed it",
    )
    _add_compact_flag(parser, ("auto", "never"))


def _add_compact_flag(parser: argparse.ArgumentParser, choices: tuple[str, ...]) -> None:
    parser.add_argument(
        "--compact",
        choices=choices,
        help="whether earlier messages are summarized when a request would be too long for the model",
    )


def _set_compaction(config: "HostConfig", mode: str | None) -> "HostConfig":
    """Return the configuration with the compaction mode set by `--compact`.

    Without the flag, the mode "ask" becomes "never", because there is no user to ask.
    """
    from mcphost.serialization import replace

    mode = mode or ("never" if config.compaction.mode == "ask" else config.compaction.mode)
    return replace(config, compaction=replace(config.compaction, mode=mode))


def _add_input_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="attach a file (text, image or PDF), lines as FILE:10-40, or a folder's listing; - is standard input",
    )
    parser.add_argument(
        "--system", metavar="TEXT", default="", help="the system prompt, or @FILE, in place of the configured one"
    )
    parser.add_argument(
        "--schema", metavar="FILE", default="", help="JSON Schema of the answer; exit code 7 when it does not match"
    )


def run(command: str, args: argparse.Namespace) -> int:
    """Run one conversation turn (`run`), or let another program control mcphost (`pipe`)."""
    return _run_pipe(args) if command == "pipe" else _run_turn(args)


def _run_pipe(args: argparse.Namespace) -> int:
    """Let another program control mcphost with JSON lines until it sends `quit` or closes standard input."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        from mcphost.auth.browser import open_url
        from mcphost.cli.build_host import open_host
        from mcphost.headless.pipe import PipeServer
        from mcphost.headless.question_answers import PipeFrontend

        frontend = PipeFrontend(open_url if args.open else None)
        open_address = frontend.open_url if args.open else None
        adjust = partial(_set_compaction, mode=args.compact)
        async with open_host(options, frontend, open_url=open_address, adjust_config=adjust) as host:
            return await PipeServer(host, frontend).run()

    return run_command(options, work)


def _run_turn(args: argparse.Namespace) -> int:
    from mcphost.cli.command_runner import resume_conversation, run_command
    from mcphost.headless.run import print_start_failure

    options = build_options(args)
    output = args.output

    async def work() -> int:
        from mcphost.cli.build_host import open_host
        from mcphost.cli.command_runner import require_server
        from mcphost.config.loader import find_unread_file
        from mcphost.config.schema import find_unread_settings
        from mcphost.headless.run import RunFrontend, run_turn
        from mcphost.headless.run_input import RunInput, open_answer_schema, read_system_prompt
        from mcphost.headless.run_rules import check_servers, parse_rules
        from mcphost.serialization import replace

        def add_rules(config: "HostConfig") -> "HostConfig":
            if unread := find_unread_file(config) or find_unread_settings(config.problems):
                raise ConfigError(unread)
            check_servers((*options.allow, *options.pass_results), (server.name for server in config.servers))
            for rule in (*rules, *passes):
                require_server(config, rule.server)
            own = system or config.system_prompt
            config = _set_compaction(config, args.compact)
            return replace(config, allow_rules=rules, pass_rules=passes, system_prompt=own)

        try:
            rules, passes = parse_rules(options.allow), parse_rules(options.pass_results)
            prompt = _read_prompt(args.prompt)
            system = read_system_prompt(args.system)
            schema = await open_answer_schema(args.schema) if args.schema else None
            stdin = await _read_stdin(args)
            frontend = RunFrontend(yes=options.yes)
            async with open_host(options, frontend, adjust_config=add_rules) as host:
                if options.resume is not None:
                    await resume_conversation(host, options.resume)
                    if system and host.conversation.system_prompt:
                        await host.conversation.set_system_prompt(system)
                printer = create_markdown_stream() if output == "text" else None
                status = None if options.quiet or output == "events" else TerminalStatus()
                return await run_turn(
                    host,
                    prompt,
                    output=output,
                    quiet=options.quiet,
                    yes=options.yes,
                    sent=RunInput(args.file, stdin, schema),
                    answer_printer=printer,
                    status=status,
                )
        except BaseException as error:
            inner = unwrap_error(error)
            print_start_failure(inner if isinstance(inner, McpHostError) else _final_error(inner), output)
            raise

    return run_command(options, work)


async def _read_stdin(args: argparse.Namespace) -> bytes:
    """Return the content of standard input to attach to the prompt, or b"" if there is nothing to attach.

    Nothing is attached if the prompt is read from standard input. Raises UsageError if the arguments name standard
    input both as the prompt and as a file to attach.
    """
    import anyio.to_thread

    from mcphost.headless.run_input import STDIN, read_stdin

    is_named = STDIN in args.file
    if args.prompt == STDIN:
        if is_named:
            raise UsageError("Standard input cannot be both the prompt and a file.", "Pass the prompt as text.")
        return b""
    # The thread is abandoned on cancellation, because reading from a pipe cannot be cancelled.
    return await anyio.to_thread.run_sync(partial(read_stdin, is_named=is_named), abandon_on_cancel=True)


class _InterruptError(McpHostError):
    exit_code = 130


def _final_error(error: BaseException) -> McpHostError:
    """Return the error to report if the command was interrupted or crashed."""
    if isinstance(error, Exception):
        return McpHostError(f"mcphost crashed ({type(error).__name__}).", "The log has the details.")
    return _InterruptError("Interrupted.")


def _read_prompt(text: str) -> str:
    if text != "-":
        if not text.strip():
            raise UsageError("The prompt is empty.", "Pass one: mcphost run 'What is 2 + 40?'")
        return text
    raw = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)
    if len(raw) > MAX_PROMPT_BYTES:
        raise UsageError(
            f"The prompt on standard input is over {MAX_PROMPT_BYTES // 1_000_000} MB.",
            "Shorten it, or attach a file: --file",
        )
    prompt = raw.decode("utf-8", "replace")
    if not prompt.strip():
        raise UsageError("Standard input has no prompt.", "Pass one: mcphost run 'What is 2 + 40?'")
    return prompt


class TerminalStatus:
    """Status line of the `run` command, with the current activity and the progress of tool calls.

    The line is shown on standard error if this is a terminal. Implements `mcphost.headless.run.StatusDisplay`.
    """

    def show(self, text: str, *, keep_time: bool = False) -> bool:
        """Show *text* and the time since it first appeared; return whether the status line can be shown.

        If *keep_time* is set, the displayed time continues from the previous text.
        """
        return update_status(text, keep_time=True) if keep_time else set_status(text)

    def show_progress(self, text: str, progress: "ToolProgress") -> None:
        """Show *text* followed by the progress of a tool call, with a progress bar if the total is known."""
        shown = format_progress(progress.progress, progress.total, progress.message)
        self.show(f"{text}{shown}", keep_time=True)

    def end(self) -> None:
        """Remove the status line; this is called before anything else is printed."""
        end_status()
