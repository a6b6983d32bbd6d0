"""Command `doctor`: checks configuration, directories, keyring, accounts, terminal, model and servers."""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

from mcphost.cli.colors import StateWord
from mcphost.cli.parser import build_options
from mcphost.cli.printing import count_cells, print_json, print_table, print_text, show_status
from mcphost.diagnosis.steps import DiagnosisStep
from mcphost.errors import ConfigError, McpHostError, ModelError, UsageError, join_sentences
from mcphost.pluralize import pluralize
from mcphost.protocol.revisions import LATEST_HANDSHAKE, LATEST_STATELESS, Revision
from mcphost.protocol.skills import EXTENSION as SKILLS
from mcphost.protocol.tasks import EXTENSION as TASKS
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct, as_object, field
from mcphost.translation import N_, _, join_list, translate_facts, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.command_runner import ServerConnectResult
    from mcphost.cli.parser import Options
    from mcphost.config.schema import HostConfig
    from mcphost.host.server_requests.sampling_costs import SamplingCosts


Status = Literal["ok", "warning", "failed"]


CHECK_NAMES = (
    N_("version"), N_("configuration"), N_("data"), N_("state"), N_("cache"), N_("log"), N_("config"), N_("model"),
    N_("keyring"), N_("sign-ins"), N_("terminal"), N_("server"),
)  # fmt: skip
"""Names of the checks; the check of a server is named "server NAME"."""


class Check(Struct, frozen=True):
    """Result of one check; `exit_code` is what the `doctor` command returns if this is the first check that failed."""

    name: str
    status: Status
    detail: str
    hint: str = ""
    exit_code: int = field(default=0, name="exit")
    steps: tuple[DiagnosisStep, ...] = ()
    """Steps of the diagnosis, for servers that failed or were named on the command line."""


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `doctor` command to *parser*."""
    parser.add_argument("names", nargs="*", metavar="SERVER", help="diagnose only these servers, step by step")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--conformance", action="store_true", help="only show what this version supports of MCP")


def run(command: str, args: argparse.Namespace) -> int:
    """Run all checks; return the exit code of the first check that failed, or 0."""
    from mcphost.cli.command_runner import run_command

    if args.conformance:
        return _print_conformance(as_json=args.json)
    options = build_options(args, one_shot=False, is_diagnosis=True)

    async def work() -> int:
        from mcphost import __version__
        from mcphost.cli.build_host import open_host
        from mcphost.cli.command_runner import remove_model, require_server
        from mcphost.config.schema import find_unread_settings
        from mcphost.host.questions.frontend import RefusingFrontend

        checks: list[Check] = []
        if not args.names:
            checks.append(Check("version", "ok", f"mcphost {__version__}, Python {sys.version.split()[0]}"))
            checks += await _check_everything_else(options)
        async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
            if args.names and (unread := find_unread_settings(host.config.problems)):
                checks.append(Check("config", "failed", unread, exit_code=ConfigError.exit_code))
            for name in args.names:
                require_server(host.config, name)
            with show_status(_("Connecting to servers…"), quiet=options.quiet) as update:
                checks += await _check_servers(host, args.names, update)
        return _report(checks, as_json=args.json)

    return run_command(options, work)


def _report(checks: list[Check], *, as_json: bool) -> int:
    """Print the checks, as JSON if *as_json* is true; return the exit code of the first one that failed, or 0."""
    if as_json:
        print_json({"ok": all(check.status != "failed" for check in checks), "checks": checks})
    else:
        _print_checks(checks)
    return next((check.exit_code for check in checks if check.status == "failed"), 0)


async def _check_everything_else(options: "Options") -> list[Check]:
    """Run the checks that do not concern servers, such as those of directories and the configuration."""
    from mcphost.cli.build_host import load_approved_configuration

    config = await load_approved_configuration(options)
    keyring = await _check_keyring(config)
    return [
        *_check_directories(options),
        *_check_config(config, options),
        await _check_model(config),
        keyring,
        *await _check_sign_ins(config, options, can_use_keyring=keyring.status == "ok"),
        _check_terminal(),
    ]


def _print_checks(checks: list[Check]) -> None:
    """Print each check as a single line without control characters, because servers wrote some of the text."""
    if sys.stdout.isatty():
        rows: list[tuple[str, str, str]] = []
        for check in checks:
            rows.append((StateWord(check.status), _name_of(check), _text_of(check)))
            rows += [(StateWord(step.status), f"  {_(step.name)}", _text_of(step)) for step in check.steps]
        print_table(rows, wrap=True)
        return
    for check in checks:
        lines = [f"{_pad(check.status)} {_name_of(check)}: {_text_of(check)}"]
        lines += [f"  {_pad(step.status)} {_(step.name)}: {_text_of(step)}" for step in check.steps]
        for line in lines:
            print_text(sanitize(line, keep_newlines=False))


def _pad(status: str) -> str:

    return _(status) + " " * (len("warning ") - count_cells(_(status)))


def _name_of(check: Check) -> str:
    """Return the name of a check in the user's language; in "server NAME", only the word "server" is translated."""
    word, space, rest = check.name.partition(" ")
    return f"{_(word)}{space}{rest}"


def _text_of(result: Check | DiagnosisStep) -> str:
    return join_sentences(translate_facts(result.detail), translate_sentence(result.hint))


def _print_conformance(*, as_json: bool) -> int:

    report = collect_report()
    if as_json:
        print_json(report)
    else:
        width = min(LINE_WIDTH, get_terminal_size().columns) if sys.stdout.isatty() else LINE_WIDTH
        for line in format_report(report, width):
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
        while not os.path.exists(at) and at != at.parent:
            at = at.parent
        writable = os.access(at, os.W_OK) and os.path.isdir(at)
        needed = name in {"data", "state"}
        if writable or not needed:
            checks.append(Check(name, "ok", str(place) if os.path.exists(place) else f"{place} (does not exist yet)"))
        else:
            checks.append(Check(
                name, "warning", f"{place} cannot be written; nothing will be stored there.",
                f"Set MCPHOST_{name.upper()}_DIR to another place.",
            ))  # fmt: skip
    checks.append(Check("log", "ok", str(log.log_file())))
    return checks


def _check_config(config: "HostConfig", options: "Options") -> list[Check]:
    """Return one check per configuration problem.

    A problem that disables a server or file is a failure; all other problems are warnings.
    """
    from mcphost.config.schema import ConfigWarning

    checks: list[Check] = []
    for problem in config.problems:
        status: Status = "warning" if isinstance(problem, ConfigWarning) else "failed"
        checks.append(Check("config", status, problem, exit_code=3))
    if not checks:
        checks.append(Check("config", "ok", f"{pluralize(len(config.servers), 'server')} configured"))
    return checks


async def _check_model(config: "HostConfig") -> Check:
    from mcphost.cli.build_host import create_secrets
    from mcphost.llm.providers import find_key

    model = config.model
    if not model.name:
        return Check(
            "model", "warning", "No model is chosen.", f"Set [model] name in {config.settings_file}, or use --model."
        )
    if model.name != "demo":
        try:
            await find_key(model, os.environ, create_secrets(config.secret_store).get)
        except ModelError as error:
            return Check("model", "warning", error.message, error.hint)
    return Check("model", "ok", f"{model.name}{f' at {model.api_base}' if model.api_base else ''}")


async def _check_keyring(config: "HostConfig") -> Check:
    from mcphost.auth.keyring_backend import KeyringBackend

    try:
        description = await KeyringBackend().describe()
    except McpHostError as error:
        if config.secret_store in ("", "keyring"):
            return Check(
                "keyring",
                "warning",
                error.message,
                f'Unlock or install one, or set [secrets] store = "file" or "encrypted" in {config.settings_file}.',
            )
        return Check("keyring", "ok", error.message, "Sign-ins do not need it.")
    return Check("keyring", "ok", description)


async def _check_sign_ins(config: "HostConfig", options: "Options", *, can_use_keyring: bool) -> list[Check]:
    """Check where tokens are stored, and whether the files that contain tokens can be used.

    The first of the returned checks states the configured storage location, and how many accounts are stored in the
    keyring and in each file. *can_use_keyring* is true if a keyring is available.
    """
    from mcphost.cli.build_host import create_oauth_registry
    from mcphost.host.questions.frontend import RefusingFrontend
    from mcphost.host.servers.accounts import STORAGE_LABELS

    warnings: list[str] = []
    token_store = create_oauth_registry(
        options, RefusingFrontend(), config.secret_store, warn=warnings.append
    ).token_store
    count = Counter(one.place for one in await token_store.accounts())
    chosen = "in the keyring; you are asked if there is none"
    if config.secret_store:
        chosen = STORAGE_LABELS[config.secret_store]
    elif not can_use_keyring:
        chosen = "only until mcphost quits; the chat asks for another place, and so do commands in a terminal"
    detail = "; ".join(
        [f"stored {chosen}", *(f"{number} {STORAGE_LABELS.get(place, place)}" for place, number in count.items())]
    )
    checks = [Check("sign-ins", "ok", detail)]
    for place in {*count, config.secret_store} & {"file", "encrypted"}:
        backend = token_store.storage.get_backend(place)
        try:
            checks.append(Check("sign-ins", "ok", await backend.describe() if backend else ""))
        except McpHostError as error:
            checks.append(Check("sign-ins", "warning", error.message, error.hint))
    return [*checks, *(Check("sign-ins", "warning", text) for text in warnings)]


def _check_terminal() -> Check:
    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return Check("terminal", "ok", "standard output is not a terminal; output is plain text")
    size = get_terminal_size()
    facts = f"{term or 'TERM is not set'}, {size.columns}x{size.lines}, {sys.stdout.encoding}"
    if term in {"", "dumb"}:
        return Check("terminal", "warning", facts, "The chat needs a terminal that can position its cursor.")
    if size.columns < 80 or size.lines < 24:
        return Check("terminal", "warning", facts, "Use at least 80x24.")
    if "utf" not in (sys.stdout.encoding or "").lower():
        return Check("terminal", "warning", facts, "Use a UTF-8 locale.")
    return Check("terminal", "ok", facts)


async def _check_servers(host: Any, names: list[str], update: Callable[[str], object]) -> list[Check]:
    """Connect to the servers in *names*, and return the checks for each server.

    If *names* is empty, all enabled servers are checked, and those that could not be connected are diagnosed step by
    step. Servers in *names* are always diagnosed. *update* is called with text for the status line.
    """
    from mcphost.cli.command_runner import connect_servers, find_never_rule_warnings
    from mcphost.serialization import replace

    checks: list[Check] = []
    for answer in await connect_servers(host, names):
        update(_("Diagnosing {name}…").format(name=answer.view.name))
        steps = await _diagnose(host, answer.view.name) if names or answer.error is not None else ()
        checks += [replace(check, steps=steps) for check in _summarize_server(answer)]
    return checks + [Check("config", "warning", text) for text in find_never_rule_warnings(host)]


async def _diagnose(host: Any, name: str) -> tuple[DiagnosisStep, ...]:
    from mcphost.host.servers.diagnosis import diagnose_server
    from mcphost.llm.providers import parse_provider

    provider = parse_provider(host.config.model.name)
    return tuple([step async for step in diagnose_server(host.servers, name, provider)])


def _summarize_server(answer: "ServerConnectResult") -> list[Check]:
    error, facts, name = answer.error, answer.view.facts, f"server {answer.view.name}"
    if error is None and facts is not None:
        catalog = answer.view.catalog
        tools = pluralize(len(catalog.tools), "tool")
        return [Check(name, "ok", f"{facts.revision.value}, {tools}, {answer.seconds:.2f} s")]
    if error is not None:
        status: Status = "warning" if error.exit_code == 5 else "failed"
        return [Check(name, status, error.message, error.hint, error.exit_code)]
    return []


LINE_WIDTH = 110


class RevisionSupport(Struct, frozen=True):
    """Features that mcphost supports in one protocol revision.

    These are the transports, the requests and notifications in both directions, and the client capabilities.
    """

    revision: str
    era: str
    transports: tuple[str, ...]
    requests: tuple[str, ...]
    notifications: tuple[str, ...] = field(name="notices")
    answered_requests: tuple[str, ...] = field(name="answered")
    received_notifications: tuple[str, ...] = field(name="heard")
    capabilities: dict[str, Any]


class Limit(Struct, frozen=True):
    """A limit on the resources that servers can use; `unit` is the unit of `value`."""

    name: str
    value: float
    unit: str


class ConformanceReport(Struct, frozen=True):
    """Report on the MCP features that this build of mcphost supports, with the newest protocol revision first."""

    version: str
    revisions: tuple[RevisionSupport, ...]
    extensions: dict[str, tuple[str, ...]]
    schema_dialects: tuple[str, ...]
    limits: tuple[Limit, ...]


def collect_report() -> ConformanceReport:
    """Collect the MCP features that this build supports, without starting a server or reading a file."""
    from mcphost import __version__
    from mcphost.client.capabilities import capabilities_for
    from mcphost.protocol.revisions import Revision
    from mcphost.sandbox.schema_limits import DIALECTS

    declared = _declared_capabilities()
    return ConformanceReport(
        __version__,
        tuple(
            RevisionSupport(
                revision.value,
                revision.era,
                _transports(revision),
                methods_in(revision, CLIENT_REQUESTS),
                methods_in(revision, CLIENT_NOTIFICATIONS),
                methods_in(revision, SERVER_REQUESTS),
                methods_in(revision, SERVER_NOTIFICATIONS),
                capabilities_for(revision, declared),
            )
            for revision in sorted(Revision, reverse=True)
        ),
        {name: tuple(table) for name, table in EXTENSION_REQUESTS.items()},
        DIALECTS,
        _limits(),
    )


def _transports(revision: Any) -> tuple[str, ...]:
    """Return the transports available in a protocol revision; HTTP+SSE exists only before 2026-07-28."""
    return ("stdio", "streamable-http", "sse") if revision.era == "handshake" else ("stdio", "streamable-http")


def _declared_capabilities() -> dict[str, Any]:
    from mcphost.config.schema import ModelConfig, SamplingConfig
    from mcphost.headless.question_answers import PipeFrontend
    from mcphost.host.audit.audit_log import create_in_memory_log
    from mcphost.host.event_bus import EventBus
    from mcphost.host.lifetime import Lazy, Lifetime
    from mcphost.host.model_selection import ModelSelection
    from mcphost.host.server_requests.request_handler import ServerRequestHandlerFactory
    from mcphost.host.server_requests.roots import Roots
    from mcphost.host.server_requests.sampling_models import SamplingModels
    from mcphost.llm.model import ChatModel

    def ignore_notice(kind: str, text: str) -> None:
        """Ignore a notice; none is expected, since no server is started."""

    def refuse_model(config: ModelConfig) -> ChatModel:
        raise UsageError(f"{config.name} is not used here.")

    def refuse_costs() -> "SamplingCosts":
        raise UsageError("No request is sent here.")

    selection = ModelSelection(refuse_model, ModelConfig(), EventBus(), Lifetime())
    models = SamplingModels(selection, SamplingConfig(), Lazy(refuse_costs))
    return (
        ServerRequestHandlerFactory(PipeFrontend(), models, Roots(()), ignore_notice, create_in_memory_log())
        .create("")
        .capabilities
    )


def _limits() -> tuple[Limit, ...]:
    from mcphost.client import input_required, pagination
    from mcphost.config.schema import Limits
    from mcphost.protocol import jsonrpc
    from mcphost.sandbox import schema_limits
    from mcphost.transport import event_stream, http1_connection, http_client
    from mcphost.transport import line_reader as lines

    defaults = Limits()
    return (
        Limit(N_("message, decoded"), lines.MESSAGE_LIMIT, N_("bytes")),
        Limit(N_("event of a stream"), event_stream.EVENT_LIMIT, N_("bytes")),
        Limit(N_("headers of a response"), http1_connection.HEAD_LIMIT, N_("bytes")),
        Limit(N_("members of a batch"), jsonrpc.BATCH_LIMIT, N_("messages")),
        Limit(N_("redirects, inside the origin"), http_client.MAX_REDIRECTS, N_("times")),
        Limit(N_("a list"), pagination.MAX_ITEMS, N_("items")),
        Limit(N_("pages of a list"), pagination.MAX_PAGES, N_("pages")),
        Limit(N_("input rounds of a request"), input_required.MAX_ROUNDS, N_("rounds")),
        Limit(N_("schema"), schema_limits.MAX_SCHEMA_SIZE, N_("bytes")),
        Limit(N_("depth of a schema"), schema_limits.MAX_SCHEMA_DEPTH, N_("levels")),
        Limit(N_("time to connect"), defaults.connect_timeout, N_("seconds")),
        Limit(N_("time of a request"), defaults.request_timeout, N_("seconds")),
        Limit(N_("time of a request that reports progress"), defaults.request_timeout_max, N_("seconds")),
        Limit(N_("time of a task"), defaults.task_timeout, N_("seconds")),
    )


def format_report(report: ConformanceReport, width: int = LINE_WIDTH) -> list[str]:
    """Return the report as lines of text, wrapped at *width* characters."""
    lines = [_("mcphost {version} speaks these revisions of MCP:").format(version=report.version)]
    for support in report.revisions:
        text = _("{revision} ({era} era) over {transports}").format(
            revision=support.revision, era=_(support.era), transports=join_list(support.transports)
        )
        lines += ["", text]
        for what, names in (
            (_("sends"), support.requests),
            (_("notifies"), support.notifications),
            (_("answers"), support.answered_requests),
            (_("receives"), support.received_notifications),
            (_("declares"), _capability_names(support.capabilities)),
        ):
            lines += _wrap_names(f"  {what}{' ' * (10 - count_cells(what))}", names, width)
    lines += ["", _("extensions:")]
    for name, sends in report.extensions.items():
        lines += _wrap_names(f"  {name}: ", sends, width)
    lines += ["", *_wrap_names(_("JSON Schema dialects: "), report.schema_dialects, width), "", _("limits:")]
    return lines + [f"  {_(limit.name)}: {limit.value:,.0f} {_(limit.unit)}" for limit in report.limits]


def _wrap_names(start: str, names: Iterable[str], width: int) -> list[str]:
    return wrap(join_list(names), width, initial_indent=start, subsequent_indent=" " * 12, break_on_hyphens=False)


def _capability_names(capabilities: dict[str, Any]) -> list[str]:
    """Return the names of the capabilities, each with its enabled members.

    For example, `{"roots": {"listChanged": true}}` becomes `roots.listChanged`. A capability without enabled members is
    listed by its name alone.
    """
    names: list[str] = []
    for name, value in capabilities.items():
        members = as_object(value)
        names += [f"{name}.{member}" for member, setting in members.items() if setting is not False] or [name]
    return names


_FIRST_REVISION = Revision.V2024_11_05
_ALL_REVISIONS = (_FIRST_REVISION, LATEST_STATELESS)
_HANDSHAKE = (_FIRST_REVISION, LATEST_HANDSHAKE)
_STATELESS = (Revision.V2026_07_28, LATEST_STATELESS)
_WITH_ELICITATION = (Revision.V2025_06_18, LATEST_STATELESS)
_WITH_CORE_TASKS = (Revision.V2025_11_25, Revision.V2025_11_25)
RevisionRange = tuple[Revision, Revision]
"""The first and the last protocol revision that define a method."""

CLIENT_REQUESTS: dict[str, RevisionRange] = {
    "initialize": _HANDSHAKE,
    "server/discover": _STATELESS,
    "ping": _HANDSHAKE,
    "tools/list": _ALL_REVISIONS,
    "tools/call": _ALL_REVISIONS,
    "resources/list": _ALL_REVISIONS,
    "resources/templates/list": _ALL_REVISIONS,
    "resources/read": _ALL_REVISIONS,
    "resources/subscribe": _HANDSHAKE,
    "resources/unsubscribe": _HANDSHAKE,
    "subscriptions/listen": _STATELESS,
    "prompts/list": _ALL_REVISIONS,
    "prompts/get": _ALL_REVISIONS,
    "completion/complete": _ALL_REVISIONS,
    "logging/setLevel": _HANDSHAKE,
    "tasks/get": _WITH_CORE_TASKS,
    "tasks/result": _WITH_CORE_TASKS,
    "tasks/cancel": _WITH_CORE_TASKS,
}
"""Requests that the client sends."""

CLIENT_NOTIFICATIONS: dict[str, RevisionRange] = {
    "notifications/initialized": _HANDSHAKE,
    # Since 2026-07-28 only over stdio; over HTTP, closing the stream cancels a request.
    "notifications/cancelled": _ALL_REVISIONS,
    "notifications/roots/list_changed": _HANDSHAKE,
    "notifications/tasks/status": _WITH_CORE_TASKS,
}
"""Notifications that the client sends."""

SERVER_REQUESTS: dict[str, RevisionRange] = {
    "ping": _HANDSHAKE,
    "roots/list": _ALL_REVISIONS,
    "sampling/createMessage": _ALL_REVISIONS,
    "elicitation/create": _WITH_ELICITATION,
    "tasks/get": _WITH_CORE_TASKS,
    "tasks/result": _WITH_CORE_TASKS,
    "tasks/list": _WITH_CORE_TASKS,
    "tasks/cancel": _WITH_CORE_TASKS,
}
"""Server requests that the client answers; since 2026-07-28, they arrive in `input_required` results."""

SERVER_NOTIFICATIONS: dict[str, RevisionRange] = {
    "notifications/progress": _ALL_REVISIONS,
    "notifications/message": _ALL_REVISIONS,
    "notifications/cancelled": _ALL_REVISIONS,
    "notifications/tools/list_changed": _ALL_REVISIONS,
    "notifications/prompts/list_changed": _ALL_REVISIONS,
    "notifications/resources/list_changed": _ALL_REVISIONS,
    "notifications/resources/updated": _ALL_REVISIONS,
    "notifications/elicitation/complete": (Revision.V2025_11_25, LATEST_HANDSHAKE),
    "notifications/tasks/status": _WITH_CORE_TASKS,
    "notifications/subscriptions/acknowledged": _STATELESS,
}
"""Server notifications that the client handles."""

EXTENSION_REQUESTS: dict[str, dict[str, RevisionRange]] = {
    TASKS: {"tasks/get": _STATELESS, "tasks/update": _STATELESS, "tasks/cancel": _STATELESS},
    SKILLS: {"skills/list": _ALL_REVISIONS, "skills/get": _ALL_REVISIONS},
}
"""Requests that the client sends only if the server declares the extension, keyed by extension."""


def methods_in(revision: Revision, table: dict[str, RevisionRange]) -> tuple[str, ...]:
    """Return the methods in *table* that exist in *revision*, in the order of the table.

    *table* maps the name of each method to the first and last revision that defines it.
    """
    return tuple(method for method, (first, last) in table.items() if first <= revision <= last)
