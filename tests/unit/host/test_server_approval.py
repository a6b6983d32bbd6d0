"""Tests that the approval of a server covers exactly what was shown, for the chosen time; changes need a new one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.schema import ServerConfig
from mcphost.errors import StoreError
from mcphost.host.audit.audit_log import create_in_memory_log
from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustOnce, TrustServer
from mcphost.host.servers.server_approval import RunApprovals, ServerApprovals, approve, carry_over, make_question
from mcphost.serialization import replace
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore, TrustedServer
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.audit_rows import create_audit_log, read_rows

pytestmark = pytest.mark.anyio
SERVER = ServerConfig(
    name="files", command="npx", args=("-y", "fs"), cwd="/srv/a", env={"TOKEN": "s3cret"}, source="project",
    file="/srv/a/.mcp.json",
)  # fmt: skip
WEB = ServerConfig(name="web", url="https://mcp.example/mcp", headers={"X-Key": "s3cret"}, source="project")
CHANGES = [
    {"command": "npx2"}, {"args": ("fs", "-y")}, {"cwd": "/srv/b"}, {"env": {"OTHER": "s3cret"}},
    {"env": {"TOKEN": "another"}}, {"headers": {"X-Key": "another"}},
    {"url": "https://mcp.example/other"}, {"headers": {"X-Other": "s3cret"}}, {"ca_file": "/srv/ca.pem"},
]  # fmt: skip


@pytest.fixture
async def grants(tmp_path: Path) -> AsyncIterator[GrantStore]:
    database = Database(tmp_path / "s.db")
    yield GrantStore(database)
    await database.close()


def create_approvals(grants: GrantStore, *answers: Any) -> tuple[ServerApprovals, ScriptedFrontend]:
    """Return the server approvals of one run, with a front end that gives these answers."""
    frontend = ScriptedFrontend(*answers)
    return ServerApprovals(grants, frontend, create_in_memory_log(), RunApprovals()), frontend


@pytest.mark.parametrize(("answer", "later"), [(TrustOnce(), False), (TrustAlways(), True), (DoNotTrust(), False)])
async def test_an_approval_lasts_as_long_as_chosen(grants: GrantStore, answer: Any, later: bool) -> None:
    one, frontend = create_approvals(grants, answer)
    allowed = not isinstance(answer, DoNotTrust)
    assert await one.ask_approval(SERVER) is allowed
    assert await one.is_approved(SERVER) is allowed
    assert await one.find_source(SERVER) == {TrustOnce: "session", TrustAlways: "always"}.get(type(answer), "")
    assert len(frontend.asked) == 1
    now, frontend = create_approvals(grants, DoNotTrust())
    assert await now.ask_approval(SERVER) is later
    assert len(frontend.asked) == (not later)


class ObservedGrantStore(GrantStore):
    """A store that counts how often an approval was looked up."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.lookups = 0
        self.looked_up = anyio.Event()

    async def find_trusted(self, server: str) -> TrustedServer | None:
        found = await super().find_trusted(server)
        self.lookups += 1
        self.looked_up.set()
        self.looked_up = anyio.Event()
        return found


async def test_a_question_is_withdrawn_once_another_process_approved_exactly_this_server(
    grants: GrantStore, tmp_path: Path
) -> None:
    database, notices = Database(tmp_path / "s.db"), list[tuple[str, str]]()
    seen, frontend, audit_log = ObservedGrantStore(database), ScriptedFrontend(), create_audit_log(tmp_path)
    asking = ServerApprovals(
        seen,
        audit_log.wrap_frontend(frontend),
        audit_log,
        RunApprovals(),
        notify=lambda *notice: notices.append(notice),
    )
    results: list[bool] = []

    async def ask() -> None:
        results.append(await asking.ask_approval(SERVER))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await frontend.asked_now.wait()
            await approve(grants, create_in_memory_log(), replace(SERVER, command="other"))
            before = seen.lookups
            while seen.lookups < before + 2:
                await seen.looked_up.wait()
            assert (frontend.waiting, notices) == (1, []), "another command was approved, not this one"
            await approve(grants, create_in_memory_log(), SERVER)
    assert results == [True]
    assert (frontend.waiting, len(frontend.asked)) == (0, 1)
    assert notices == [("info", "The server 'files' was approved elsewhere, so its question was withdrawn.")]
    assert [(row.event, row.decision) for row in await read_rows(audit_log, "trust")] == [("withdrawn", "")]
    assert await ServerApprovals(grants, ScriptedFrontend(), audit_log, RunApprovals()).is_approved(SERVER)
    await database.close()


async def test_an_entry_of_another_name_is_asked_about_though_it_is_the_same_program(grants: GrantStore) -> None:
    one, frontend = create_approvals(grants, DoNotTrust(), TrustOnce(), DoNotTrust())
    alias = replace(SERVER, name="alias")
    assert not await one.ask_approval(alias)
    assert await one.ask_approval(SERVER)
    assert not await one.ask_approval(alias)
    assert len(frontend.asked) == 3


@pytest.mark.parametrize("answer", [TrustOnce(), TrustAlways()])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
async def test_a_changed_command_or_url_is_asked_about_again(
    grants: GrantStore, change: dict[str, Any], answer: Any, tmp_path: Path
) -> None:
    if "ca_file" in change:
        change = {"ca_file": str(tmp_path / "ca.pem")}
        (tmp_path / "ca.pem").touch()
    before = SERVER if next(iter(change)) in ("command", "args", "cwd", "env") else WEB
    one, frontend = create_approvals(grants, answer, DoNotTrust())
    assert await one.ask_approval(before)
    assert not await one.ask_approval(replace(before, **change))
    asked = frontend.asked[1]
    assert isinstance(asked, TrustServer)
    assert bool(asked.changed) is isinstance(answer, TrustAlways)
    assert asked.why.endswith("changed since you approved it" if asked.changed else "was not approved yet")
    assert await one.ask_approval(before), "what was approved stays so"


async def test_the_question_shows_everything_but_secrets() -> None:
    question = make_question(replace(SERVER, trust_annotations=True), None)
    assert (question.command, question.cwd, question.env_names) == (("npx", "-y", "fs"), "/srv/a", ("TOKEN",))
    assert question.file == "/srv/a/.mcp.json"
    assert question.trusts_claims
    web = make_question(WEB, None)
    assert (web.url, web.header_names, web.trusts_claims) == ("https://mcp.example/mcp", ("X-Key",), False)
    assert "s3cret" not in repr(question) + repr(web)


async def test_entries_rewritten_by_mcphost_are_approved_only_if_exactly_they_were(
    tmp_path: Path, grants: GrantStore
) -> None:
    audit_log, after = create_audit_log(tmp_path), replace(SERVER, args=("-y", "fs", "--new"))
    assert not await carry_over(grants, audit_log, SERVER, after)
    await approve(grants, audit_log, replace(SERVER, command="other"))
    assert not await carry_over(grants, audit_log, SERVER, after)
    assert not await create_approvals(grants)[0].is_approved(after)
    assert [row.event for row in await read_rows(audit_log, "trust")] == ["kept"], "and nothing else is recorded"
    await approve(grants, audit_log, SERVER)
    assert await carry_over(grants, audit_log, SERVER, after)
    assert await create_approvals(grants)[0].is_approved(after)


def test_every_place_is_approved_separately() -> None:
    def at(folder: str, source: Any) -> str:
        return server_digest(replace(SERVER, cwd=folder, file=f"{folder}/mcp.json", source=source))

    assert server_digest(replace(WEB, ca_file="/a.pem")) != server_digest(replace(WEB, ca_file="/b.pem"))
    assert at("/srv/a", "user") != at("/srv/b", "user")
    assert at("/srv/a", "project") != at("/srv/b", "project")


async def test_a_named_file_approves_servers_in_its_own_folder_and_nothing_elsewhere(
    grants: GrantStore, tmp_path: Path
) -> None:
    named = replace(SERVER, source="flag", file=str(tmp_path / "clone" / "conf" / "mcp.json"))
    inside = replace(named, name="inside", startup_folder=str(tmp_path / "clone"))
    outside = replace(named, name="outside", startup_folder=str(tmp_path / "other"))
    frontend = ScriptedFrontend(DoNotTrust())
    one = ServerApprovals(grants, frontend, create_in_memory_log(), RunApprovals((named, inside, outside)))
    assert await one.is_approved(named)
    assert await one.is_approved(inside)
    assert not await one.ask_approval(outside)
    assert len(frontend.asked) == 1


async def test_an_approved_file_approves_no_server_that_is_named_after_it(grants: GrantStore) -> None:
    server = replace(SERVER, name="/srv/a/AGENTS.md")
    await grants.save_trusted(TrustedServer(server.name, server_digest(server), "Use tabs."))
    one, frontend = create_approvals(grants, DoNotTrust())
    assert not await one.ask_approval(server)
    assert not await carry_over(grants, create_in_memory_log(), server, replace(server, name="files"))
    assert [question.changed for question in frontend.asked if isinstance(question, TrustServer)] == [()]
    registry_name = replace(SERVER, name="io.github.ada/weather")
    await approve(grants, create_in_memory_log(), registry_name)
    assert await one.is_approved(registry_name)


class BrokenGrantStore(GrantStore):
    """A store that cannot be read."""

    async def find_trusted(self, server: str) -> TrustedServer | None:
        raise StoreError(f"The approval of {server} cannot be read.")


async def test_an_approval_for_the_session_needs_no_store_and_no_other_server_gets_one(tmp_path: Path) -> None:
    run, database = RunApprovals(), Database(tmp_path / "s.db")
    run.add(SERVER.name, server_digest(SERVER))
    approvals = ServerApprovals(BrokenGrantStore(database), ScriptedFrontend(), create_in_memory_log(), run)
    assert await approvals.find_source(SERVER) == "session"
    with pytest.raises(StoreError):
        await approvals.find_source(replace(SERVER, command="other"))
    await database.close()


async def test_naming_a_file_approves_only_what_it_contained_at_the_start(grants: GrantStore, tmp_path: Path) -> None:
    env_file = tmp_path / ".env"
    env_file.write_text("A=1\n")
    named = replace(SERVER, source="flag", env_file=str(env_file))
    frontend = ScriptedFrontend(*[DoNotTrust()] * 3)
    one = ServerApprovals(grants, frontend, create_in_memory_log(), RunApprovals((named,)))
    assert await one.authorize(named)
    for later in (replace(named, name="added"), replace(named, command="sh")):
        assert not await one.ask_approval(later)
    env_file.write_text("LD_PRELOAD=/x\n")
    assert not await one.ask_approval(named)
    assert len(frontend.asked) == 3


def test_variables_that_decide_which_code_is_loaded_are_pointed_out_and_never_hidden() -> None:
    values = {
        "PYTHONPATH": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "NODE_OPTIONS": "--require ./a.js",
        "npm_config_registry": "https://evil.example/?token=abcdefghij",
        "https_proxy": "http://me:hunter2@proxy.example:3128",
        "HOME": "/srv",
        "PYTHONUNBUFFERED": "1",
        "LOG_LEVEL": "debug",
    }
    question = make_question(replace(SERVER, env=values, source="project"), None)
    assert question.warnings == (
        "It sets NODE_OPTIONS and PYTHONPATH: that decides which code its program loads.",
        "It sets npm_config_registry: that decides where its packages and containers come from.",
        "It sets https_proxy: that decides which proxies it uses and which certificates it trusts.",
        "It sets HOME: that decides where its programs look for their settings.",
        "It sets NODE_OPTIONS to places in the project's folder, where files can change without a new approval.",
    )
    shown = dict(question.environment)
    assert shown.pop("https_proxy").startswith("http://[hidden]@proxy.example:3128 (fingerprint ")
    assert shown == {name: text for name, text in values.items() if name in shown}
    assert len(shown) == len(values) - 1


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "DYLD_INSERT_LIBRARIES",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYOPT",
        "RUBYLIB",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "GIT_CONFIG_COUNT",
        "JAVA_TOOL_OPTIONS",
        "DOTNET_STARTUP_HOOKS",
        "UV_INDEX_URL",
        "PIP_INDEX_URL",
        "NPM_CONFIG_REGISTRY",
        "npm_config_node_options",
        "DOCKER_HOST",
    ],
)
def test_a_variable_that_can_load_code_is_a_danger(name: str) -> None:
    (only,) = make_question(replace(SERVER, env={name: "/x"}), None).warnings
    assert only.startswith(f"It sets {name}: that decides ")


def test_many_dangerous_variables_are_counted() -> None:
    (only,) = make_question(replace(SERVER, env={f"LD_{n}": "x" for n in range(9)}), None).warnings
    assert only == "It sets LD_0, LD_1, LD_2, LD_3, LD_4 and 4 more: that decides which code its program loads."
