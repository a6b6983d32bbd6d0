"""Step-by-step diagnosis of a server: its configuration, program or URL, approval, connection and lists."""

import os
import time
from collections.abc import AsyncIterator
from shlex import quote

import anyio.to_thread

from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import expand_target
from mcphost.diagnosis.explain import explain_failure
from mcphost.diagnosis.network_steps import check_address
from mcphost.diagnosis.program_steps import check_program
from mcphost.diagnosis.steps import DiagnosisStep, make_step
from mcphost.diagnosis.well_known import check_well_known
from mcphost.errors import ConfigError, McpHostError, SignInRequired
from mcphost.host.server_views import ServerView, describe_capabilities, summarize_catalog
from mcphost.host.servers.description_warnings import warn_about_definition
from mcphost.host.servers.servers import Servers
from mcphost.llm.refused_tools import find_schema_problem
from mcphost.pluralize import pluralize

_ELLIPSIS = "…"
"""Replacement for each secret, because the steps are shown to the user and none of them needs a secret."""
_MAX_NAMED_TOOLS = 5
_MAX_EXAMINED_TOOLS = 500
"""Maximum number of tools whose definitions are searched for suspicious phrases; each may take 40 ms."""
_MAX_TOOL_NAME = 64
"""Maximum length of a tool's name, with the server's name as a prefix, that all providers accept."""


async def diagnose_server(servers: Servers, name: str, provider: str = "") -> AsyncIterator[DiagnosisStep]:
    """Diagnose a server and yield the result of each step; stop after the first failed step.

    *provider* is the provider of the selected model, "" for none; one step checks whether it accepts the input schemas
    of the tools. A server that is not approved is neither started nor contacted. Even the host name in its URL is not
    looked up: the name may contain the value of a variable, which a lookup would reveal. The server's tools and other
    features are taken from the host's own connection to it. Raises UsageError for an unknown name.
    """
    config = servers.find(name).config
    if config.disabled:
        yield make_step(
            "configuration", "failed", "The server is disabled.", f"Enable it: mcphost servers enable {quote(name)}"
        )
        return
    try:
        target = expand_target(config, os.environ, lambda name: _ELLIPSIS)
    except ConfigError as error:
        yield make_step("configuration", "failed", error.message, error.hint)
        return
    yield make_step("configuration", "ok", config.file)
    async for step in _check_target(servers, name, target):
        yield step
        if step.status == "failed":
            return
    began = time.monotonic()
    try:
        view = await servers.ensure_ready(name)
    except McpHostError as error:
        if isinstance(error, SignInRequired) and not target.is_stdio:
            yield await check_well_known(target)
        yield _explain(target, servers.view(name), error)
        return
    seconds = time.monotonic() - began
    yield make_step("process" if target.is_stdio else "HTTP", "ok", f"it runs and answers; waited {seconds:.2f} s")
    for step in _describe_ready(view):
        yield step
    # In a thread, because the definitions of a server may have megabytes. It may go on after a cancellation.
    for step in await anyio.to_thread.run_sync(_check_tools, view, provider, abandon_on_cancel=True):
        yield step


async def _check_target(servers: Servers, name: str, target: ServerConfig) -> AsyncIterator[DiagnosisStep]:
    """Check a server's program or address, and its approval.

    Files are checked even if the server is not approved; the network is used only if it is approved.
    """
    if target.is_stdio:
        for step in check_program(target):
            yield step
            if step.status == "failed":
                return
        problem = await _find_approval_problem(servers, name, is_stdio=True)
        if problem is not None:
            yield problem
        return
    problem = await _find_approval_problem(servers, name, is_stdio=False)
    if problem is not None:
        yield problem
        return
    async for step in check_address(target):
        yield step


async def _find_approval_problem(servers: Servers, name: str, *, is_stdio: bool) -> DiagnosisStep | None:
    try:
        is_approved = await servers.is_approved(name)
    except McpHostError as error:
        return make_step("approval", "failed", error.message, error.hint)
    if is_approved:
        return None
    if is_stdio:
        return make_step(
            "approval",
            "failed",
            "The server is not approved, so it was not started.",
            f"Read what it runs, and approve it: mcphost servers trust {quote(name)}",
        )
    return make_step(
        "approval",
        "failed",
        "The server is not approved, so it was not contacted.",
        f"Read its address, and approve it: mcphost servers trust {quote(name)}",
    )


def _explain(target: ServerConfig, view: ServerView, error: McpHostError) -> DiagnosisStep:
    stderr = [line.text for line in view.log if line.source == "stderr"]
    warnings = [line.text for line in view.log if line.source == "client"]
    return explain_failure(target, error, stderr, warnings)


def _describe_ready(view: ServerView) -> list[DiagnosisStep]:
    facts = view.facts
    steps: list[DiagnosisStep] = []
    broken = view.counts.get("broken messages", 0)
    if broken:
        printed = next(
            (line.text for line in view.log if line.source == "client" and "standard output" in line.text), ""
        )
        text = f"{pluralize(broken, 'line')} on standard output not in JSON. {printed}"
        steps.append(make_step("output", "warning", text, "Logs and banners belong on standard error."))
    if facts is not None:
        steps.append(make_step("protocol", "ok", f"{facts.revision.value} ({facts.era} era)"))
        steps.append(make_step("version", "ok", f"{facts.info.title or facts.info.name} {facts.info.version}".strip()))
        steps.append(make_step("capabilities", "ok", describe_capabilities(facts)))
    if view.account is not None:
        steps.append(make_step("sign-in", "ok", f"as {view.account.name or 'the default account'}"))
    steps.append(make_step("lists", "ok", summarize_catalog(view.catalog)))
    steps += [
        make_step("lists", "warning", text, "Report it to the server's author.") for text in view.catalog.left_out[:10]
    ]
    return steps


def _check_tools(view: ServerView, provider: str) -> list[DiagnosisStep]:
    """Return a step for each kind of problem with the tools, or one step that states that there is none.

    Problems are long names, schemas that *provider* may reject, quarantined tools and suspicious descriptions.
    """
    steps: list[DiagnosisStep] = []
    long = [tool.name for tool in view.catalog.tools if len(f"{view.name}__{tool.name}") > _MAX_TOOL_NAME]
    if long:
        text = f"{pluralize(len(long), 'tool')} with a name too long for some providers: "
        text += ", ".join(long[:_MAX_NAMED_TOOLS])
        steps.append(
            make_step(
                "tools", "warning", text, "Give the server a shorter name; otherwise mcphost shortens the tool names."
            )
        )
    if view.quarantined:
        text = f"in quarantine, because they changed: {', '.join(view.quarantined[:10])}"
        steps.append(make_step("tools", "warning", text, "Review them: /servers, then c."))
    suspicious = [
        tool.name
        for tool in view.catalog.tools[:_MAX_EXAMINED_TOOLS]
        if warn_about_definition(tool.description, tool.input_schema)
    ]
    if suspicious:
        text = f"{pluralize(len(suspicious), 'tool')} with a suspicious description: "
        text += f"{', '.join(suspicious[:_MAX_NAMED_TOOLS])}."
        steps.append(make_step("tools", "warning", text, "Read it before you use the tool: /tools."))
    problems = [(tool.name, find_schema_problem(tool.input_schema, provider)) for tool in view.catalog.tools]
    odd = [f"{name} ({why})" for name, why in problems if why]
    whom = provider or "every provider"
    if odd:
        text = f"{pluralize(len(odd), 'tool')} that {provider or 'some providers'} may refuse: "
        text += ", ".join(odd[:_MAX_NAMED_TOOLS])
        steps.append(make_step("tools", "warning", text, "The model gets them with an adapted schema."))
    elif view.catalog.tools and not steps:
        steps.append(make_step("tools", "ok", f"valid for {whom}"))
    return steps
