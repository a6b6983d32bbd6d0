"""mcphost servers: list what is configured, trust one, check that they answer."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphost.errors import Declined, UsageError

if TYPE_CHECKING:
    from mcphost.cli.asking import Answer
    from mcphost.cli.options import Options
    from mcphost.config.load import ProjectFile
    from mcphost.config.schema import ServerConfig
    from mcphost.store.grants import Grants


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of `servers`."""
    parser.add_argument("action", nargs="?", choices=("list", "trust", "check"), default="list", help="list by default")
    parser.add_argument("name", nargs="?", metavar="NAME", help="which server; `trust` also takes .mcp.json")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(command: str, given: argparse.Namespace) -> int:
    """Do it."""
    from mcphost.cli.running import options_of, run

    if given.action == "trust" and not given.name:
        raise UsageError("Which server?", "mcphost servers trust NAME; names: mcphost servers list")
    if given.action == "list" and given.name:
        raise UsageError("servers list takes no name.", f"Does it answer? mcphost servers check {given.name}")
    options = options_of(given)

    async def work() -> int:
        match given.action:
            case "list":
                return await _list(options, as_json=given.json)
            case "trust":
                return await _trust(options, given.name, as_json=given.json)
            case _:
                return await _check(options, given.name, as_json=given.json)

    return run(options, work)


async def _list(options: "Options", *, as_json: bool) -> int:
    from mcphost import paths
    from mcphost.cli.compose import configuration
    from mcphost.cli.printing import document, note, table
    from mcphost.cli.running import warn
    from mcphost.cli.stored import open_grants
    from mcphost.config.load import SERVERS_FILE

    async with open_grants() as grants:
        config = await configuration(options, grants)
        states = [(server, await _state(server, grants)) for server in config.servers]
    if as_json:
        document({"servers": [_entry(*one) for one in states], "problems": list(config.problems)})
        return 0
    warn(config, options)
    table((server.name, state, " ".join(server.argv) if server.is_stdio else server.url) for server, state in states)
    if not states and not options.quiet:
        note(f"No servers are configured. Write them to {paths.config_dir(options.config_dir) / SERVERS_FILE}")
    return 0


async def _state(server: "ServerConfig", grants: "Grants") -> str:
    from mcphost.host.front import RefusingFront
    from mcphost.host.trust import Trusting

    if server.disabled:
        return "disabled"
    return "approved" if await Trusting(grants, RefusingFront()).knows(server) else "not approved"


def _entry(server: "ServerConfig", state: str) -> dict[str, Any]:
    from mcphost.config.digest import server_digest

    kind = {"command": list(server.argv), "cwd": server.cwd} if server.is_stdio else {"url": server.url}
    return {
        "name": server.name,
        "state": state,
        "transport": "stdio" if server.is_stdio else "http",
        **kind,
        "env": sorted(server.env),
        "headers": sorted(server.headers),
        "era": server.era,
        "revision": server.revision or "",
        "source": server.source,
        "file": server.file,
        "digest": server_digest(server),
    }


async def _trust(options: "Options", name: str, *, as_json: bool) -> int:
    from mcphost.cli.compose import configuration
    from mcphost.cli.printing import document, say
    from mcphost.cli.running import known
    from mcphost.cli.stored import open_grants
    from mcphost.config.digest import describe, server_digest
    from mcphost.config.load import PROJECT_FILE, project_file
    from mcphost.store.grants import Trust

    async with open_grants() as grants:
        config = await configuration(options, grants)
        project = project_file(Path.cwd()) if name == PROJECT_FILE else None
        if project is not None:
            return await _trust_project(project, grants)
        known(config, name)
        server = next(server for server in config.servers if server.name == name)
        lines = describe(server)
        if server.source == "flag":
            raise UsageError(f"{name!r} comes from --mcp-config, which approves it for that run.", "Nothing to do.")
        if not as_json:
            earlier = await grants.trust(name)
            say(f"{name} ({server.file})")
            say("\n".join(f"  {line}" for line in lines))
            if earlier and earlier.digest != server_digest(server):
                say("approved before:\n" + "\n".join(f"  {line}" for line in earlier.description.splitlines()))
            _confirm(f"Approve {name}?")
        await grants.approve(Trust(name, server_digest(server), "\n".join(lines)))
    if as_json:
        document({"approved": name, "digest": server_digest(server), "covers": list(lines)})
    else:
        say("Approved, as long as nothing of this changes.")
    return 0


async def _trust_project(project: "ProjectFile", grants: "Grants") -> int:
    """A folder's own file: it may then name servers, each of which still needs its own approval."""
    from mcphost.cli.compose import approve_project
    from mcphost.cli.printing import say
    from mcphost.config.digest import describe
    from mcphost.config.files import json_of, text_of
    from mcphost.config.servers import servers_of

    problems: list[str] = []
    document = json_of(text_of(project.content, project.path), project.path)
    servers = servers_of(document, project.path, "project", problems.append)
    say(project.path)
    for server in servers:
        say("\n".join([f"  {server.name}", *(f"    {line}" for line in describe(server))]))
    for problem in problems:
        say(f"  {problem}")
    _confirm("Use this file?")
    await approve_project(grants, project)
    say("This content of the file is used from now on; each server in it is still approved by itself.")
    return 0


def _confirm(question: str) -> None:
    """Ask when somebody can answer. Without a terminal, having typed the name is the answer. Raises Declined."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Declined("Nothing was approved.")


async def _check(options: "Options", name: str | None, *, as_json: bool) -> int:
    from mcphost.cli.asking import ask_servers, measure
    from mcphost.cli.compose import open_host
    from mcphost.cli.printing import document, table
    from mcphost.cli.running import known, warn, without_model
    from mcphost.headless.documents import server
    from mcphost.host.front import RefusingFront

    async with open_host(options, RefusingFront(), only=without_model) as host:
        if name:
            known(host.config, name)
        else:
            warn(host.config, options)
        answers = await ask_servers(host, [name] if name else None)
        await measure(host, answers)
    if as_json:
        checked = [
            {
                **server(one.view),
                "ok": one.error is None,
                "seconds": round(one.seconds, 3),
                "latency": None if one.latency is None else round(one.latency, 4),
                "error": one.problem(),
            }
            for one in answers
        ]
        document({"servers": checked, "problems": list(host.config.problems)})
    else:
        table(_row(one) for one in answers)
    return next((one.error.exit_code for one in answers if one.error is not None), 0)


def _row(answer: "Answer") -> tuple[str, ...]:
    from mcphost.cli.printing import paragraph
    from mcphost.headless.documents import plain

    view, facts = answer.view, answer.view.facts
    if answer.error is not None or facts is None:
        error = answer.error
        return view.name, "failed", "", "", paragraph(error) if error else view.detail
    catalog = view.catalog
    counts = f"{len(catalog.tools)} tools, {len(catalog.resources)} resources, {len(catalog.prompts)} prompts"
    who = f"{facts.info.name} {facts.info.version}".strip()
    times = f"ready in {answer.seconds:.2f} s"
    if answer.latency is not None:
        times += f", round trip {answer.latency * 1000:.1f} ms"
    offered = ", ".join(plain(facts.capabilities)) or "nothing"
    return view.name, "ok", facts.revision.value, facts.era, f"{counts}; {who}; {times}; offers {offered}"
