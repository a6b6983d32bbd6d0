"""mcphost call, read, prompt, skill, complete: one thing of one server, done because the user named it."""

import argparse
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mcphost.errors import UsageError

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.protocol.resources import ReadResourceResult, ResourceContents


HIDDEN = "A server may hide tools that ask something back, since nobody can answer that here; to use one: mcphost pipe"


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of these commands."""
    parser.add_argument("server", metavar="SERVER", help="the server's configured name")
    match command:
        case "call":
            parser.add_argument("name", metavar="TOOL", help="the tool's name")
            parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="arguments, typed by the tool's schema")
            parser.add_argument("--args", metavar="JSON|@FILE|-", help="all arguments as one JSON object")
        case "prompt":
            parser.add_argument("name", metavar="NAME", help="the prompt's name")
            parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="its arguments")
        case "skill":
            parser.add_argument("name", metavar="NAME|URI", help="the skill's name, or the address of its SKILL.md")
            parser.add_argument("file", nargs="?", metavar="FILE", help="one of its files by its path; else SKILL.md")
        case "complete":
            parser.add_argument("kind", choices=("prompt", "resource"), help="what the argument belongs to")
            parser.add_argument("name", metavar="NAME|TEMPLATE", help="the prompt's name, or the template's text")
            parser.add_argument("argument", metavar="ARGUMENT", help="which argument or variable")
            parser.add_argument("value", metavar="VALUE", help="what of it is typed already; may be empty")
            parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="arguments that are filled in already")
        case _:
            parser.add_argument("uri", metavar="URI", help="which resource; a template with KEY=VALUE after it")
            parser.add_argument("pairs", nargs="*", metavar="KEY=VALUE", help="values for the template's variables")
            parser.add_argument("-o", "--output", metavar="FILE", help="write the content there, bytes as they are")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(command: str, given: argparse.Namespace) -> int:
    """Connect to that server alone and do it."""
    from mcphost.cli.command_runner import one_server, run
    from mcphost.cli.options import options_of

    options = options_of(given)
    does: dict[str, Callable[[Host, argparse.Namespace], Awaitable[int]]] = {
        "call": _call,
        "read": _read,
        "prompt": _prompt,
        "complete": _complete,
        "skill": _skill,
    }

    async def work() -> int:
        async with one_server(options, given.server) as host:
            try:
                return await does[command](host, given)
            finally:
                _say_refused(host, given.server)

    return run(options, work)


def _say_refused(host: "Host", server: str) -> None:
    """A command asks nobody: say what the server asked for and did not get, and where it could."""
    from mcphost.cli.output import note

    for line in host.server(server).log:
        if line.source == "client" and "which was not offered to it" in line.text:
            note(line.text)


async def _call(host: "Host", given: argparse.Namespace) -> int:
    from mcphost.cli.argument_values import arguments, pairs
    from mcphost.cli.output import document, note, say
    from mcphost.headless.json_output import exit_code, outcome

    pairs(given.pairs)  # a mistake here should not cost a connection
    view = await host.ensure_ready(given.server)
    tool = next((tool for tool in view.catalog.tools if tool.name == given.name), None)
    if tool is None:
        names = ", ".join(sorted(tool.name for tool in view.catalog.tools)[:20]) or "none"
        raise UsageError(
            f"The server {given.server!r} has no tool named {given.name!r}.", f"Its tools: {names}. {HIDDEN}"
        )
    called = await host.call_tool(given.server, given.name, arguments(given.pairs, given.args, tool.input_schema))
    if given.json:
        document(outcome(called))
    else:
        say(called.text)
    if called.validation.text:
        note(called.validation.text)
    return exit_code(called)


async def _prompt(host: "Host", given: argparse.Namespace) -> int:
    from mcphost.cli.argument_values import pairs
    from mcphost.cli.output import document, say
    from mcphost.headless.json_output import filled
    from mcphost.host.results.presentation import render_block

    prompt = await host.get_prompt(given.server, given.name, pairs(given.pairs))
    if given.json:
        document(filled(prompt))
        return 0
    for message in prompt.messages:
        say(f"[{message.role}]\n{render_block(message.parse_content())[0]}")
    return 0


async def _complete(host: "Host", given: argparse.Namespace) -> int:
    from mcphost.cli.argument_values import pairs
    from mcphost.cli.output import document, note, say
    from mcphost.headless.json_output import completion
    from mcphost.protocol.completion import PromptReference, ResourceTemplateReference

    ref = PromptReference(given.name) if given.kind == "prompt" else ResourceTemplateReference(given.name)
    found = await host.features.complete(given.server, ref, given.argument, given.value, pairs(given.pairs))
    if given.json:
        document(completion(found))
        return 0
    for value in found.values:
        say(value)
    if found.has_more:
        of = f" of {found.total:,.0f}" if found.total else ""
        note(f"There are more than these {len(found.values)}{of}; type more of the value.")
    return 0


async def _skill(host: "Host", given: argparse.Namespace) -> int:
    from mcphost.cli.output import document, say
    from mcphost.headless import json_output

    skills = host.features.skills
    skill = await skills.find(given.server, given.name)
    content = await skills.load(given.server, skill)
    if given.file:
        content = await skills.read(given.server, skill, given.file)
    if given.json:
        document(json_output.skill(content))
    else:
        say(content.text)
    return 0


async def _read(host: "Host", given: argparse.Namespace) -> int:
    from mcphost.cli.argument_values import pairs
    from mcphost.cli.output import document, say
    from mcphost.headless.json_output import contents

    values = pairs(given.pairs)
    uri = host.features.expand_template(given.uri, values) if values else given.uri
    read = await host.read_resource(given.server, uri)
    if given.output:
        return _write(read, given.output)
    if given.json:
        document(contents(read))
        return 0
    for one in read.contents:
        if one.text is not None:
            say(one.text)
        elif sys.stdout.isatty():
            kind = f" of type {one.mime_type}" if one.mime_type else ""
            say(f"[{len(_bytes(one))} bytes{kind}; write them to a file with: -o FILE]")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(_bytes(one))
    return 0


def _write(read: "ReadResourceResult", name: str) -> int:
    from mcphost.config.atomic_write import replace_file

    if len(read.contents) != 1:
        raise UsageError(f"The resource has {len(read.contents)} parts; -o writes one.", "Get them all with --json.")
    content = _bytes(read.contents[0])
    target = Path(name).expanduser()
    try:
        if target.is_file():
            replace_file(target, content, target.stat().st_mode & 0o777)
        elif not target.exists():
            replace_file(target, content, 0o666 & ~_umask())
        else:  # a pipe or a device, which cannot be replaced
            target.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{name} cannot be written: {error.strerror}.", "Choose another place.") from error
    return 0


def _umask() -> int:
    """The permissions that files of this process do not get; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _bytes(one: "ResourceContents") -> bytes:
    import base64
    import binascii

    from mcphost.errors import MalformedMessage

    if one.text is not None:
        return one.text.encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(one.blob or "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise MalformedMessage("The resource is not valid base64.", "Tell the server's author.") from error
