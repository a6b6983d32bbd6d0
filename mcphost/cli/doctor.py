"""mcphost doctor: checks configuration, places, keyring, terminal, model and servers, and says what to do."""

import argparse
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from mcphost.pluralize import pluralize
from mcphost.serialization import Struct

if TYPE_CHECKING:
    from mcphost.cli.options import Options
    from mcphost.config.schema import HostConfig

Status = Literal["ok", "warning", "failed"]


class Check(Struct, frozen=True):
    """One thing that was looked at; `exit` is the exit code it stands for when it failed."""

    name: str
    status: Status
    detail: str
    hint: str = ""
    exit: int = 0


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of `doctor`."""
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--conformance", action="store_true", help="only say what this build speaks of MCP")


def run(command: str, args: argparse.Namespace) -> int:
    """Look at everything; the exit code of the first thing that failed."""
    from mcphost.cli.command_runner import run_command
    from mcphost.cli.options import build_options

    if args.conformance:
        return _print_conformance(as_json=args.json)
    options = build_options(args, one_shot=False)

    async def work() -> int:
        from mcphost import __version__
        from mcphost.cli.bootstrap import open_host
        from mcphost.cli.command_runner import remove_model
        from mcphost.cli.output import print_json, print_text
        from mcphost.host.questions.frontend import RefusingFrontend

        checks = [
            Check("version", "ok", f"mcphost {__version__}, Python {sys.version.split()[0]}"),
            *_check_directories(options),
        ]
        config = await _load_config(options)
        checks += [
            *_check_config(config, options),
            _check_model(config),
            await _check_keyring(config),
            *await _check_sign_ins(config, options),
            _check_terminal(),
        ]
        async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
            checks += await _check_servers(host)
        if args.json:
            print_json({"ok": all(one.status != "failed" for one in checks), "checks": checks})
        else:
            for one in checks:
                print_text(f"{one.status:<8} {one.name}: {one.detail}{f' {one.hint}' if one.hint else ''}")
        return next((one.exit for one in checks if one.status == "failed"), 0)

    return run_command(options, work)


def _print_conformance(*, as_json: bool) -> int:
    from mcphost.cli.conformance_report import collect_report, format_report
    from mcphost.cli.output import print_json, print_text

    found = collect_report()
    if as_json:
        print_json(found)
    else:
        for line in format_report(found):
            print_text(line)
    return 0


def _check_directories(options: "Options") -> list[Check]:
    from mcphost import log, paths

    places = {
        "configuration": paths.config_dir(options.config_dir),
        "data": paths.data_dir(),
        "state": paths.state_dir(),
        "cache": paths.cache_dir(),
    }
    checks: list[Check] = []
    for name, place in places.items():
        at = place
        while not at.exists() and at != at.parent:
            at = at.parent
        writable = os.access(at, os.W_OK) and at.is_dir()
        needed = name in {"data", "state"}
        if writable or not needed:
            checks.append(Check(name, "ok", str(place) if place.exists() else f"{place} (not there yet)"))
        else:
            checks.append(Check(
                name, "warning", f"{place} cannot be written; nothing will be kept there.",
                f"Set MCPHOST_{name.upper()}_DIR to another place.",
            ))  # fmt: skip
    checks.append(Check("log", "ok", str(log.log_file())))
    return checks


async def _load_config(options: "Options") -> "HostConfig":
    from mcphost.cli.bootstrap import load_configuration
    from mcphost.cli.offline_store import open_grants

    async with open_grants() as grants:
        return await load_configuration(options, grants)


def _check_config(config: "HostConfig", options: "Options") -> list[Check]:
    """Mistakes that cost a server or a file fail; what still works is a warning."""
    checks: list[Check] = []
    for problem in config.problems:
        harmless = ("looks like a secret", "is not known", "is used", "is passed on", "will not be found")
        status: Status = "warning" if any(text in problem for text in harmless) else "failed"
        checks.append(Check("config", status, problem, exit=3))
    if not checks:
        checks.append(Check("config", "ok", f"{pluralize(len(config.servers), 'server')} configured"))
    return checks


def _check_model(config: "HostConfig") -> Check:
    model = config.model
    if not model.name:
        fix = f"Set [model] name in {config.settings_file}, or use --model."
        return Check("model", "warning", "No model is chosen.", fix)
    if model.api_key_env and not os.environ.get(model.api_key_env):
        return Check("model", "warning", f"{model.name}: {model.api_key_env} is not set.", f"Set {model.api_key_env}.")
    return Check("model", "ok", f"{model.name}{f' at {model.api_base}' if model.api_base else ''}")


async def _check_keyring(config: "HostConfig") -> Check:
    from mcphost.auth.keyring_backend import KeyringBackend
    from mcphost.errors import McpHostError

    try:
        found = await KeyringBackend().describe()
    except McpHostError as error:
        hint = error.hint if config.secret_store in ("", "keyring") else "Sign-ins do not need it."
        return Check("keyring", "warning" if config.secret_store in ("", "keyring") else "ok", error.message, hint)
    return Check("keyring", "ok", found)


async def _check_sign_ins(config: "HostConfig", options: "Options") -> list[Check]:
    """Where sign-ins are kept, how many there are in each place, and what is wrong with the files of them."""
    from mcphost.cli.bootstrap import create_oauth_registry
    from mcphost.errors import McpHostError
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.servers.accounts import STORAGE_LABELS

    told: list[str] = []
    keep = create_oauth_registry(options, RefusingFrontend(), config.secret_store).token_store
    keep.warn = told.append
    count = Counter(one.place for one in await keep.accounts())
    chosen = (
        STORAGE_LABELS[config.secret_store]
        if config.secret_store
        else "in the keyring; you are asked when there is none"
    )
    detail = "; ".join(
        [f"kept {chosen}", *(f"{number} {STORAGE_LABELS.get(place, place)}" for place, number in count.items())]
    )
    checks = [Check("sign-ins", "ok", detail)]
    for place in {*count, config.secret_store} & {"file", "encrypted"}:
        vault = keep.storage.get_backend(place)
        try:
            checks.append(Check("sign-ins", "ok", await vault.describe() if vault else ""))
        except McpHostError as error:
            checks.append(Check("sign-ins", "warning", error.message, error.hint))
    return [*checks, *(Check("sign-ins", "warning", text) for text in told)]


def _check_terminal() -> Check:
    from shutil import get_terminal_size

    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return Check("terminal", "ok", "standard output is not a terminal; output is plain text")
    size = get_terminal_size()
    facts = f"{term or 'TERM is not set'}, {size.columns}x{size.lines}, {sys.stdout.encoding}"
    if term in {"", "dumb"}:
        return Check("terminal", "warning", facts, "The chat needs a terminal that can position its cursor.")
    if size.columns < 80 or size.lines < 24:
        return Check("terminal", "warning", facts, "It is small; 80x24 is where everything fits.")
    if "utf" not in (sys.stdout.encoding or "").lower():
        return Check("terminal", "warning", facts, "Use a UTF-8 locale.")
    return Check("terminal", "ok", facts)


async def _check_servers(host: Any) -> list[Check]:
    from mcphost.cli.fan_out import connect_servers

    checks: list[Check] = []
    for answer in await connect_servers(host):
        error, facts, name = answer.error, answer.view.facts, f"server {answer.view.name}"
        if error is None and facts is not None:
            catalog = answer.view.catalog
            detail = f"{facts.revision.value}, {pluralize(len(catalog.tools), 'tool')}, {answer.seconds:.2f} s"
            checks.append(Check(name, "ok", detail))
        elif error is not None:
            status: Status = "warning" if error.exit_code == 5 else "failed"
            checks.append(Check(name, status, error.message, error.hint, error.exit_code))
    return checks
