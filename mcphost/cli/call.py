"""Commands `call`, `read`, `prompt`, `skill` and `complete`: each sends one request to one server."""

import argparse
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from mcphost.cli.call_arguments import parse_arguments, parse_pairs
from mcphost.cli.messages import format_exchange, format_message
from mcphost.cli.parser import build_options
from mcphost.cli.printing import (
    format_progress,
    print_dim,
    print_json,
    print_line_on_stderr,
    print_markdown,
    print_note,
    print_text,
    show_status,
    update_status,
    write_output_file,
)
from mcphost.errors import UsageError
from mcphost.pluralize import translate_count
from mcphost.serialization import dumps
from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.http_log import LoggedExchange
    from mcphost.message_log import LoggedMessage
    from mcphost.protocol.resources import ReadResourceResult


HIDDEN_TOOLS_HINT = (
    "A server may hide tools that ask the user something, which this command cannot answer; use: mcphost pipe"
)


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of *command*, which is `call`, `read`, `prompt`, `skill` or `complete`, to *parser*."""
    parser.add_argument("server", metavar="SERVER", help="the server's configured name")
    match command:
        case "call":
            parser.add_argument("name", metavar="TOOL", help="the tool's name")
            parser.add_argument(
                "pairs", nargs="*", metavar="KEY=VALUE", help="arguments, converted by the tool's schema"
            )
            parser.add_argument("--args", metavar="JSON|@FILE|-", help="all arguments as one JSON object")
        case "prompt":
            parser.add_argument("name", metavar="NAME", help="the prompt's name")
            parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="its arguments")
        case "skill":
            parser.add_argument("name", metavar="NAME|URI", help="the skill's name, or the address of its SKILL.md")
            parser.add_argument(
                "file", nargs="?", metavar="FILE", help="the path of one of its files (default: SKILL.md)"
            )
        case "complete":
            parser.add_argument("kind", choices=("prompt", "resource"), help="what the argument belongs to")
            parser.add_argument("name", metavar="NAME|TEMPLATE", help="the prompt's name, or the template's text")
            parser.add_argument("argument", metavar="ARGUMENT", help="the argument or variable")
            parser.add_argument("value", metavar="VALUE", help="the part of its value typed so far; may be empty")
            parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="arguments filled in so far")
        case _:
            parser.add_argument("uri", metavar="URI", help="the resource's URI, or a template followed by KEY=VALUE")
            parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="values for the template's variables")
            parser.add_argument(
                "-o", "--output", metavar="FILE", help="write the content to this new file, bytes unchanged"
            )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--messages",
        action="store_true",
        help="print each message sent to and received from the server, and HTTP with its headers, on stderr",
    )


def run(command: str, args: argparse.Namespace) -> int:
    """Connect to the server, send the request for *command*, and print the result."""
    from mcphost.cli.command_runner import open_host_for_server, run_command

    options = build_options(args)
    handlers: dict[str, Callable[[Host, argparse.Namespace], Awaitable[int]]] = {
        "call": _call,
        "read": _read,
        "prompt": _prompt,
        "complete": _complete,
        "skill": _skill,
    }

    async def work() -> int:

        async with open_host_for_server(options, args.server) as host:
            if args.messages:
                log = host.servers.log_messages(args.server)
                log.on_message, log.on_exchange = _print_message, _print_exchange
            with show_status(_("Connecting to {server}…").format(server=args.server), quiet=options.quiet):
                try:
                    return await handlers[command](host, args)
                finally:
                    _print_refused_requests(host, args.server)

    return run_command(options, work)


def _print_message(message: "LoggedMessage") -> None:
    """Print a message with its direction on stderr, in one line and without secrets; never raise an error."""
    with suppress(OSError, ValueError):  # the reader of stderr is gone, or its disk is full
        print_line_on_stderr(format_message(message))


def _print_exchange(exchange: "LoggedExchange") -> None:
    """Print an HTTP exchange with its headers on stderr once it has ended; never raise an error.

    An event stream, which may stay open for a long time, is printed when it is opened, and again without headers when
    it ends.
    """
    is_open, is_stream = exchange.outcome == "open", exchange.is_event_stream
    if is_open and not is_stream:
        return
    with suppress(OSError, ValueError):  # the reader of stderr is gone, or its disk is full
        for line in format_exchange(exchange, with_headers=is_open or not is_stream):
            print_line_on_stderr(line)


def _print_refused_requests(host: "Host", server: str) -> None:
    """Print the requests from the server that were refused because this command cannot ask the user."""
    from mcphost.client.capabilities import NO_USER_HINT

    for line in host.servers.view(server).log:
        if line.source == "client" and NO_USER_HINT in line.text:
            print_note(line.text)


async def _call(host: "Host", args: argparse.Namespace) -> int:
    import anyio

    from mcphost.headless.exit_codes import call_exit_code
    from mcphost.headless.json_output import call_json
    from mcphost.host.servers.servers import unknown_tool_error
    from mcphost.host.tools.argument_names import ANY_NAME_HINT, ARGS_OPTION_HINT

    typed_names = parse_pairs(args.pairs).keys()  # fail before connecting
    view = await host.servers.ensure_ready(args.server)
    tool = next((tool for tool in view.catalog.tools if tool.name == args.name), None)
    if tool is None:
        raise unknown_tool_error(args.server, args.name, (one.name for one in view.catalog.tools), HIDDEN_TOOLS_HINT)
    arguments = parse_arguments(args.pairs, args.args, tool.input_schema)
    update_status(_("Calling {name}…").format(name=args.name))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_show_progress, host, args.name)
        try:
            result = await host.tools.call(args.server, args.name, arguments, typed_names=typed_names)
        except UsageError as error:
            error.hint = error.hint.replace(ANY_NAME_HINT, ARGS_OPTION_HINT)
            raise
        tasks.cancel_scope.cancel()
        if result.arguments not in (None, arguments):
            print_note(_("A hook changed the arguments: {arguments}").format(arguments=dumps(result.arguments)))
        if args.json:
            print_json(call_json(result))
        else:
            print_text(result.text)
        if result.validation.text:
            print_note(result.validation.text)
        return call_exit_code(result)
    raise AssertionError("the task group raises or the call returns")


async def _show_progress(host: "Host", tool: str) -> None:
    from mcphost.host.events import ToolProgress

    async for event in host.events.subscribe():
        if isinstance(event, ToolProgress):
            shown = format_progress(event.progress, event.total, event.message)
            update_status(_("Calling {tool}: {progress}").format(tool=tool, progress=shown), keep_time=True)


async def _prompt(host: "Host", args: argparse.Namespace) -> int:
    from mcphost.headless.json_output import prompt_json
    from mcphost.host.content_rendering import render_block

    prompt = await host.features.get_prompt(args.server, args.name, parse_pairs(args.pairs))
    if args.json:
        print_json(prompt_json(prompt))
        return 0
    for message in prompt.messages:
        print_dim(f"[{message.role}]")
        print_markdown(render_block(message.parse_content())[0])
    return 0


async def _complete(host: "Host", args: argparse.Namespace) -> int:
    from mcphost.headless.json_output import completion_json
    from mcphost.protocol.prompts import PromptReference, ResourceTemplateReference

    ref = PromptReference(args.name) if args.kind == "prompt" else ResourceTemplateReference(args.name)
    completion = await host.features.complete(args.server, ref, args.argument, args.value, parse_pairs(args.pairs))
    if args.json:
        print_json(completion_json(completion))
        return 0
    for value in completion.values:
        print_text(value)
    if completion.has_more:
        text = (
            _("There are more than these {count} of {total:,.0f}; type more of the value.")
            if completion.total
            else _("There are more than these {count}; type more of the value.")
        )
        print_note(text.format(count=len(completion.values), total=completion.total or 0))
    return 0


async def _skill(host: "Host", args: argparse.Namespace) -> int:
    from mcphost.headless import json_output

    skills = host.features.skills
    skill = await skills.find(args.server, args.name)
    content = await skills.load(args.server, skill)
    if args.file:
        content = await skills.read(args.server, skill, args.file)
    if args.json:
        print_json(json_output.skill_json(content))
    elif content.uri.lower().endswith(".md"):
        head, body = _split_front_matter(content.text)
        if head:
            print_dim(head)
        print_markdown(body)
    else:
        print_text(content.text)
    return 0


def _split_front_matter(text: str) -> tuple[str, str]:
    """Split a Markdown file into its YAML front matter, including the `---` lines, and the text that follows."""
    head, mark, body = text.partition("\n---\n")
    return (head + mark, body) if mark and text.startswith("---\n") else ("", text)


async def _read(host: "Host", args: argparse.Namespace) -> int:
    from mcphost.headless.json_output import contents_json
    from mcphost.host.content_rendering import decode_content
    from mcphost.host.servers.features import expand_template

    values = parse_pairs(args.pairs)
    uri = expand_template(args.uri, values) if values else args.uri
    result = await host.features.read_resource(args.server, uri)
    if args.output:
        return _write_resource(result, args.output, quiet=getattr(args, "quiet", False))
    if args.json:
        print_json(contents_json(result))
        return 0
    for part in result.contents:
        if part.text is not None:
            (print_markdown if part.mime_type == "text/markdown" else print_text)(part.text)
        elif sys.stdout.isatty():
            text = (
                _("[{bytes} of type {kind}; write them to a file with: -o FILE]")
                if part.mime_type
                else _("[{bytes}; write them to a file with: -o FILE]")
            )
            print_text(text.format(bytes=translate_count(len(decode_content(part)), "byte"), kind=part.mime_type))
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(decode_content(part))
    return 0


def _write_resource(result: "ReadResourceResult", file_name: str, *, quiet: bool) -> int:
    from mcphost.host.content_rendering import decode_contents

    write_output_file(file_name, decode_contents(result.contents))
    if not quiet:
        print_note(_("Wrote {file}.").format(file=file_name))
    return 0
