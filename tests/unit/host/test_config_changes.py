"""Tests for configuration files that change while the host runs, with real files and server processes."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.restart_requests import RestartRequests
from mcphost.config.schema import Profile
from mcphost.config.settings_edits import save_profile
from mcphost.errors import ConfigError, ConsentDenied, McpHostError, UsageError
from mcphost.host.config_changes import ConfigChanges
from mcphost.host.questions.questions import Accept, TrustOnce
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.setup_host import DEMO_ENTRY, config_change_detector, open_setup, write_servers, write_settings

pytestmark = pytest.mark.anyio


async def test_unchanged_files_change_nothing(tmp_path: Path) -> None:
    write_servers(tmp_path, demo=DEMO_ENTRY)
    async with open_setup(tmp_path) as (host, _):
        changes = await config_change_detector(host).check()
        assert not changes.can_apply
        assert changes.describe() == ()


async def test_an_added_server_needs_no_confirmation_but_its_own_approval(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(TrustOnce())
    async with open_setup(tmp_path, frontend=frontend) as (host, _):
        write_servers(tmp_path, demo=DEMO_ENTRY)
        changes = await config_change_detector(host).check()
        assert (changes.describe(), changes.needs_confirmation) == (("add demo",), False)
        config_change_detector(host).apply(changes)
        assert (await host.servers.ensure_ready("demo")).catalog.tools
        assert len(frontend.asked) == 1


async def test_a_changed_server_is_described_and_connected_again_when_it_is_applied(tmp_path: Path) -> None:
    write_servers(tmp_path, demo={"command": "/nowhere/else"}, other=DEMO_ENTRY)
    frontend = ScriptedFrontend(TrustOnce(), TrustOnce())
    async with open_setup(tmp_path, frontend=frontend) as (host, _):
        other = host.servers.find("other")
        write_servers(tmp_path, demo=DEMO_ENTRY, other=DEMO_ENTRY)
        changes = await config_change_detector(host).check()
        assert (changes.describe(), changes.needs_confirmation) == (("change demo",), True)
        assert host.servers.find("demo").config.command == "/nowhere/else"
        config_change_detector(host).apply(changes)
        assert (await host.servers.ensure_ready("demo")).catalog.tools
        assert host.servers.find("other") is other
        assert not (await config_change_detector(host).check()).can_apply


async def test_a_removed_server_ends_only_when_the_change_is_applied(tmp_path: Path) -> None:
    write_servers(tmp_path, demo=DEMO_ENTRY)
    async with open_setup(tmp_path) as (host, _):
        write_servers(tmp_path)
        changes = await config_change_detector(host).check()
        assert changes.describe() == ("remove demo",)
        assert host.servers.find("demo")
        config_change_detector(host).apply(changes)
        with pytest.raises(UsageError):
            host.servers.find("demo")


@pytest.mark.parametrize("broken", ["{", '{"mcpServers": []}', '{"mcpServers": {"demo": {"command": 3}}}', ""])
async def test_a_file_that_cannot_be_read_removes_no_server(tmp_path: Path, broken: str) -> None:
    write_servers(tmp_path, demo=DEMO_ENTRY)
    async with open_setup(tmp_path) as (host, _):
        (tmp_path / "config" / "mcp.json").write_text(broken)
        changes = await config_change_detector(host).check()
        if broken:
            assert changes.problems
            assert changes.removed == ()
        else:
            assert changes.removed == ("demo",)


async def test_settings_are_applied_together_and_the_rest_is_named(tmp_path: Path) -> None:
    write_settings(tmp_path, '[consent]\nnever = ["a/b"]\n[audit]\nrequired = true\n')
    async with open_setup(tmp_path) as (host, _):
        write_settings(
            tmp_path,
            'system_prompt = "other"\ntheme = "light"\n[model]\nname = "openai/x"\napi_base = "https://x.example"\n'
            '[consent]\nnever = ["c/d"]\n[audit]\nrequired = false\n',
        )
        changes = await config_change_detector(host).check()
        assert changes.describe() == (
            "use the model openai/x at https://x.example",
            "another system prompt",
            "forbid c/d",
            "no longer forbid a/b",
            "the theme light",
        )
        assert [one.name for one in changes.at_start] == ["audit.required"]
        assert changes.needs_confirmation
        assert host.model_selection.config.name == ""
        config_change_detector(host).apply(changes)
        assert host.model_selection.config.name == "openai/x"
        assert host.model_selection.system_prompt == "other"
        assert not (await config_change_detector(host).check()).can_apply


async def test_changed_limits_budget_registry_and_notifications_count_once_they_are_applied(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as (host, setup):
        assert setup.registry.place == host.settings.registry.url
        write_settings(
            tmp_path,
            "[limits]\nmax_rounds = 6\n[budget]\nper_day = 2.5\nshow_in_answers = false\n"
            '[registry]\nurl = "https://r.example"\n[notifications]\nmode = "bell"\n',
        )
        changes = await config_change_detector(host).check()
        assert changes.describe() == (
            "limits.max_rounds = 6, budget.per_day = 2.5, budget.show_in_answers = false, "
            "registry.url = https://r.example, notifications.mode = bell",
        )
        assert (changes.needs_confirmation, changes.at_start) == (True, ())
        assert host.settings.limits.max_rounds == 25
        config_change_detector(host).apply(changes)
        assert host.settings.limits.max_rounds == 6
        assert host.settings.budget.per_day == 2.5
        assert host.settings.notifications.mode == "bell"
        assert setup.registry.place == "https://r.example"
        assert not (await config_change_detector(host).check()).can_apply


@pytest.mark.parametrize(
    ("before", "after", "allows_more"),
    [
        ("[limits]\nmax_rounds = 5", "[limits]\nmax_rounds = 6", True),
        ("[limits]\nmax_rounds = 5", "[limits]\nmax_rounds = 4", False),
        ("[budget]\nper_day = 5", "[budget]\nper_day = 6", True),
        ("[budget]\nper_day = 5", "", True),
        ("[budget]\nper_day = 5", "[budget]\nper_day = 4", False),
        ("", "[budget]\nper_day = 4", False),
        ("[budget]\nshow_in_answers = false", "", False),
        ("", "[notifications]\nafter_seconds = 99", False),
        ("", '[registry]\nurl = "https://r.example"', True),
        ('[registry]\nurl = "https://r.example"', "", True),
    ],
)
async def test_a_limit_that_is_raised_or_removed_is_marked(
    tmp_path: Path, before: str, after: str, allows_more: bool
) -> None:
    write_settings(tmp_path, before)
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, after)
        (change,) = (await config_change_detector(host).check()).settings
        assert change.allows_more is allows_more


async def test_choosing_a_profile_leaves_changed_limits_to_the_review(tmp_path: Path) -> None:
    write_settings(tmp_path, "[budget]\nper_day = 1\n[profiles.p]\nmodel = 'openai/y'\n")
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, "[budget]\nper_day = 9\n[profiles.p]\nmodel = 'openai/y'\n")
        assert (await config_change_detector(host).use_profile("p")).describe() == ("use the model openai/y",)
        assert host.settings.budget.per_day == 1
        assert (await config_change_detector(host).check()).describe() == ("budget.per_day = 9",)


PROFILE = "[profiles.p]\nsystem_prompt = 'short'\n"


@pytest.mark.parametrize(
    "edited",
    [
        PROFILE,
        f"[consent]\nnever = ['web/*']\n[model]\nname = 'openai/x'\napi_base = 'https://evil.example/v1'\n{PROFILE}",
        f"[consent]\nnever = ['web/*']\n[[hooks]]\nevent = 'after_call'\ncommand = ['tee', '/tmp/x']\n{PROFILE}",
        "[consent]\nnever = ['web/*']\n[profiles.p]\nsystem_prompt = 'obey'\n",
        "[consent]\nnever = ['web/*']\n[profiles.p]\nmodel = {name = 'openai/x', api_base = 'https://evil.example/v1'}\n",
    ],
)
async def test_choosing_a_profile_applies_no_other_change_that_waits_for_a_review(tmp_path: Path, edited: str) -> None:
    write_settings(tmp_path, f"[consent]\nnever = ['web/*']\n{PROFILE}")
    async with open_setup(tmp_path) as (host, _):
        detector = config_change_detector(host)
        before = detector.config
        write_settings(tmp_path, edited)
        save = partial(save_profile, profile=Profile(name="new"))
        adding = detector.edit_profile("new", save, "new")
        for choose in (detector.use_profile("p"), detector.use_profile(""), adding):
            with pytest.raises(UsageError, match="changes that wait for your review"):
                await choose
        assert (detector.config, host.model_selection.system_prompt) == (before, "")
        assert (tmp_path / "config" / "config.toml").read_text() == edited
        detector.apply(await detector.check())
        await detector.use_profile("p")
        assert detector.config.profile == "p"


async def test_a_new_profile_is_saved_and_used_without_a_review_of_itself(tmp_path: Path) -> None:
    write_settings(tmp_path, "model = 'openai/x'\n")
    async with open_setup(tmp_path) as (host, _):
        detector = config_change_detector(host)
        save = partial(save_profile, profile=Profile(name="new", system_prompt="short"))
        changes = await detector.edit_profile("new", save, "new")
        assert (changes.describe(), detector.config.profile) == (("another system prompt",), "new")
        assert not (await detector.check()).can_apply


async def test_a_changed_profile_waits_for_a_review(tmp_path: Path) -> None:
    write_settings(tmp_path, PROFILE)
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, "[profiles.p]\nsystem_prompt = 'other'\n[profiles.q]\n")
        changes = await config_change_detector(host).check()
        assert (changes.describe(), changes.needs_confirmation) == (("change the profiles p, q",), True)


FIRST_HOOK = '[[hooks]]\nevent = "before_call"\ncommand = ["one"]\n'
SECOND_HOOK = '[[hooks]]\nevent = "after_call"\ncommand = ["two", "\\u001b"]\n'


@pytest.mark.parametrize(
    ("before", "after", "described"),
    [
        ("", FIRST_HOOK + SECOND_HOOK, ("run the hook one, two ␛",)),
        (FIRST_HOOK + SECOND_HOOK, FIRST_HOOK, ("no longer run the hook two ␛",)),
        (FIRST_HOOK + SECOND_HOOK, SECOND_HOOK + FIRST_HOOK, ("run the hook two ␛, one",)),
        (FIRST_HOOK, FIRST_HOOK + "timeout = 5\n", ("run the hook one", "no longer run the hook one")),
    ],
)
async def test_changed_hooks_are_applied_only_when_they_are_confirmed(
    tmp_path: Path, before: str, after: str, described: tuple[str, ...]
) -> None:
    write_settings(tmp_path, before)
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, after)
        changes = await config_change_detector(host).check()
        assert (changes.describe(), changes.needs_confirmation, changes.at_start) == (described, True, ())
        assert config_change_detector(host).config.hooks != changes.config.hooks
        config_change_detector(host).apply(changes)
        assert config_change_detector(host).config.hooks == changes.config.hooks
        assert not (await config_change_detector(host).check()).can_apply


async def test_an_invalid_settings_file_keeps_model_rules_and_prompt(tmp_path: Path) -> None:
    write_settings(tmp_path, 'model = "openai/x"\nsystem_prompt = "own"\n')
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, "model = ")
        changes = await config_change_detector(host).check()
        assert "not valid TOML" in changes.problems[0]
        assert not changes.can_apply
        write_settings(tmp_path, 'model = "openai/x"\n[consent]\nnever = 3\n')
        with pytest.raises(ConfigError, match="never"):
            await config_change_detector(host).check()
        assert host.model_selection.system_prompt == "own"


async def test_changed_sections_about_the_context_count_without_a_restart(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as (host, _):
        write_settings(
            tmp_path,
            "[compaction]\nmode = 'auto'\nthreshold = 70\n"
            "[context]\nmax_tools = 5\npinned_tools = ['a/b', 'c/*']\nproject_instructions = false\n",
        )
        changes = await config_change_detector(host).check()
        assert changes.describe() == (
            "no longer use the project's instructions",
            "compaction.mode = auto, compaction.threshold = 70, context.max_tools = 5, "
            "context.pinned_tools = [a/b, c/*]",
        )
        assert (changes.needs_confirmation, changes.at_start) == (True, ())
        assert [one.name for one in changes.settings if one.allows_more] == ["compaction.mode"]
        assert host.settings.compaction.mode == "ask"
        config_change_detector(host).apply(changes)
        assert (host.settings.compaction.mode, host.settings.context.max_tools) == ("auto", 5)
        assert (await config_change_detector(host).check()).is_empty
        write_settings(tmp_path, "[compaction]\nmodel = ''\nmode = 'auto'\nthreshold = 70\n")
        changes = await config_change_detector(host).check()
        assert "context.pinned_tools = []" in changes.describe()[1]
        assert not any(one.allows_more for one in changes.settings)


async def test_a_misspelt_key_does_not_hide_a_changed_limit(tmp_path: Path) -> None:
    write_settings(tmp_path, "[budget]\nask_above = 0\n")
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, "[budget]\nask_above = 0.5\n[limits]\nmax_round = 3\n")
        changes = await config_change_detector(host).check()
        assert 'did you mean "limits.max_rounds"?' in changes.problems[0]
        assert changes.describe() == ("budget.ask_above = 0.5",)


@pytest.mark.parametrize(
    ("used", "invalid"),
    [
        ("[sampling]\nrequests_per_minute = 3\n", "[sampling]\nrequests_per_minute = -3\n"),
        ("[sampling]\nrequests_per_minute = 3\n", "sampling = 3\n"),
        ('[notifications]\nmode = "off"\n', '[notifications]\nmode = "horn"\n'),
        ("[limits]\nmax_rounds = 3\n", '[limits]\nmax_rounds = "many"\n'),
        ('[sampling]\nmodels = ["openai/x"]\n', "[sampling]\nmodels = [3]\n"),
        ('roots = ["/tmp"]\n', "roots = [3]\n"),
        ('[keys]\ntheme = "ctrl+k"\n', "[keys]\ntheme = 3\n"),
        ('[model]\nname = "openai/x"\ntemperature = 0.5\n', '[model]\nname = "openai/x"\ntemperature = "warm"\n'),
        ('[secrets]\nstore = "session"\n', '[secrets]\nstore = "pocket"\n'),
        ("[limits]\nmax_rounds = 3\n", "[limits]\nmax_ruonds = 4\n"),
        ("[sampling]\nrequests_per_minute = 3\n", "[sampling]\nrequest_per_minute = 4\n"),
        ('[notifications]\nmode = "off"\n', '[notification]\nmode = "bell"\n'),
        ('[secrets]\nstore = "session"\n', '[secret]\nstore = "file"\n'),
        ('[model]\nname = "openai/x"\ntemperature = 0.5\n', '[model]\nname = "openai/x"\ntemprature = 0.6\n'),
    ],
)
async def test_a_setting_with_an_error_keeps_the_value_in_use_until_it_is_corrected(
    tmp_path: Path, used: str, invalid: str
) -> None:
    write_settings(tmp_path, used)
    async with open_setup(tmp_path) as (host, _):
        detector = config_change_detector(host)
        write_settings(tmp_path, invalid + '[titles]\nmode = "model"\n')
        changes = await detector.check()
        assert changes.describe() == ("titles.mode = model",)
        assert changes.at_start == ()
        assert changes.problems
        assert "the default" not in changes.problems[0]
        detector.apply(changes)
        write_settings(tmp_path, used + '[titles]\nmode = "model"\n')
        assert (await detector.check()).is_empty


async def test_applied_changes_are_recorded_in_one_row_with_the_values_before_and_after(tmp_path: Path) -> None:
    write_settings(tmp_path, "[limits]\nmax_rounds = 3\n")
    write_servers(tmp_path, demo={"url": "https://x.example/mcp?token=s3cretvalue", "disabled": True})
    log = create_audit_log(tmp_path)
    async with open_setup(tmp_path, audit_log=log) as (host, _):
        write_settings(tmp_path, 'roots = ["/tmp"]\n[limits]\nmax_rounds = 9\n[model]\nname = "openai/x"\n')
        write_servers(tmp_path, demo={"url": "https://y.example/mcp?token=s3cretvalue", "disabled": True})
        detector = config_change_detector(host)
        detector.apply(await detector.check())
        (row,) = await read_rows(log, "config")
    assert (row.event, row.who) == ("changed", "person")
    recorded = json.loads(row.detail)["changes"]
    assert {"limits.max_rounds: 3 → 9", "model: none → openai/x"} <= set(recorded)
    assert any(line.startswith("roots: + /tmp") for line in recorded)
    assert any("https://x.example" in line and "https://y.example" in line for line in recorded)
    assert "s3cretvalue" not in row.detail


async def test_a_server_that_is_only_disabled_or_enabled_is_named_as_such(tmp_path: Path) -> None:
    off = {"command": "/nowhere/off", "disabled": True}
    write_servers(tmp_path, demo=DEMO_ENTRY, off=off)
    async with open_setup(tmp_path) as (host, _):
        write_servers(tmp_path, demo={**DEMO_ENTRY, "disabled": True}, off={"command": "/nowhere/off"})
        assert (await config_change_detector(host).check()).describe() == ("enable off", "disable demo")
        write_servers(tmp_path, demo=DEMO_ENTRY, off={**off, "command": "/nowhere/else"})
        assert (await config_change_detector(host).check()).describe() == ("change off",)


async def test_a_model_chosen_for_now_is_not_replaced_by_an_unrelated_edit(tmp_path: Path) -> None:
    write_settings(tmp_path, 'model = "openai/x"\n')
    async with open_setup(tmp_path) as (host, setup):
        await setup.use_model(host.model_selection.config.__class__(name="openai/now"), is_default=False)
        write_settings(tmp_path, 'model = "openai/x"\ntheme = "light"\n')
        assert (await config_change_detector(host).check()).describe() == ("the theme light",)


async def test_changed_settings_of_the_model_are_described_with_both_values(tmp_path: Path) -> None:
    write_settings(tmp_path, '[model]\nname = "openai/x"\ntemperature = 0.5\n')
    async with open_setup(tmp_path) as (host, _):
        write_settings(
            tmp_path,
            '[model]\nname = "openai/x"\ntemperature = 1.5\nreasoning_effort = "high"\n'
            'headers = {X-Key = "hush-hush"}\n',
        )
        changes = await config_change_detector(host).check()
        assert changes.describe() == (
            "change the model's settings: reasoning_effort: – → high, temperature: 0.5 → 1.5, headers: – → X-Key",
        )
        write_settings(tmp_path, '[model]\nname = "openai/z"\ntemperature = 0.5\n')
        changes = await config_change_detector(host).check()
        assert changes.describe() == ("use the model openai/z instead of openai/x",)


async def test_a_profile_is_applied_and_taken_back_while_the_host_runs(tmp_path: Path) -> None:
    write_servers(tmp_path, demo=DEMO_ENTRY, other={"command": "/nowhere/else"})
    write_settings(tmp_path, 'model = "openai/x"\n[profiles.p]\nmodel = "openai/y"\nservers = ["demo"]\n')
    frontend = ScriptedFrontend(TrustOnce(), TrustOnce())
    async with open_setup(tmp_path, frontend=frontend) as (host, _):
        host.start()
        changes = await config_change_detector(host).use_profile("p")
        assert changes.describe() == ("disable other", "use the model openai/y instead of openai/x")
        assert host.servers.view("other").state == "disabled"
        with pytest.raises(UsageError, match=r"not in the profile 'p'"):
            await host.servers.find("other").session()
        with pytest.raises(UsageError, match="has no profile"):
            await config_change_detector(host).use_profile("q")
        assert (await config_change_detector(host).use_profile("")).describe() == (
            "enable other",
            "use the model openai/x instead of openai/y",
        )
        assert host.servers.view("other").state != "disabled"


async def test_the_watch_reports_each_change_once_after_the_file_is_complete(tmp_path: Path) -> None:
    write_servers(tmp_path, demo=DEMO_ENTRY)
    seen: list[ConfigChanges | McpHostError] = []
    arrived = anyio.Event()

    async def note(change: ConfigChanges | McpHostError) -> None:
        seen.append(change)
        arrived.set()

    async with open_setup(tmp_path) as (host, _), anyio.create_task_group() as tasks:
        tasks.start_soon(config_change_detector(host).watch, note)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(20):
            await _write_until(arrived, tmp_path)
        assert isinstance(seen[0], ConfigChanges)
        assert [server.name for server in seen[0].added] == ["second"]
        tasks.cancel_scope.cancel()
    assert len(seen) == 1


async def test_what_changed_during_the_review_is_reported_again_after_the_reviewed_changes_are_applied(
    tmp_path: Path,
) -> None:
    reports, receive = anyio.create_memory_object_stream[ConfigChanges | McpHostError](10)

    async def next_report() -> tuple[str, ...]:
        with anyio.fail_after(20):
            change = await receive.receive()
        assert isinstance(change, ConfigChanges)
        return change.describe()

    write_settings(tmp_path, 'system_prompt = "a"\n')
    async with reports, receive, open_setup(tmp_path) as (host, _), anyio.create_task_group() as tasks:
        detector = config_change_detector(host)
        tasks.start_soon(detector.watch, reports.send)
        await anyio.wait_all_tasks_blocked()
        write_settings(tmp_path, 'system_prompt = "b"\n')
        assert await next_report() == ("another system prompt",)
        reviewed = await detector.check()
        write_settings(tmp_path, 'system_prompt = "b"\n[consent]\nnever = ["web/post"]\n')
        assert await next_report() == ("another system prompt", "forbid web/post")
        detector.apply(reviewed)
        assert await next_report() == ("forbid web/post",)
        detector.apply(await detector.check())
        assert (await detector.check()).is_empty
        tasks.cancel_scope.cancel()


async def test_a_changed_environment_file_of_a_running_server_is_offered_like_a_changed_entry(tmp_path: Path) -> None:
    variables = tmp_path / "demo.env"
    variables.write_text("SHARED_TOKEN=first-value\nGONE=1\n")
    write_servers(tmp_path, demo=DEMO_ENTRY | {"envFile": str(variables)})
    frontend = ScriptedFrontend(TrustOnce(), TrustOnce())
    arrived: list[ConfigChanges] = []

    async with open_setup(tmp_path, frontend=frontend) as (host, _), anyio.create_task_group() as tasks:
        detector, noticed = config_change_detector(host), anyio.Event()

        async def note(change: ConfigChanges | McpHostError) -> None:
            assert isinstance(change, ConfigChanges)
            arrived.append(change)
            noticed.set()

        await host.servers.ensure_ready("demo")
        assert (await detector.check()).is_empty
        tasks.start_soon(detector.watch, note)
        await anyio.wait_all_tasks_blocked()
        variables.write_text("SHARED_TOKEN=second-value\nNEW=1\n")
        with anyio.fail_after(20):
            await noticed.wait()
        tasks.cancel_scope.cancel()
    changes = arrived[0]
    assert (changes.describe(), changes.needs_confirmation) == (("change demo",), True)
    ((old, new),) = changes.changed
    assert (old.env_file_names, new.env_file_names) == (("GONE", "SHARED_TOKEN"), ("NEW", "SHARED_TOKEN"))
    assert "-value" not in repr(changes)


async def test_a_changed_environment_file_counts_once_it_is_applied_and_approved(tmp_path: Path) -> None:
    variables = tmp_path / "demo.env"
    variables.write_text("SHARED_TOKEN=first-value\n")
    write_servers(tmp_path, demo=DEMO_ENTRY | {"envFile": str(variables)})
    frontend = ScriptedFrontend(*[TrustOnce()] * 3)
    async with open_setup(tmp_path, frontend=frontend) as (host, _):
        detector = config_change_detector(host)
        await host.servers.ensure_ready("demo")
        for number in (2, 3):
            variables.write_text(f"SHARED_TOKEN=value-{number}\n")
            changes = await detector.check()
            assert changes.describe() == ("change demo",)
            detector.apply(changes)
            await host.servers.ensure_ready("demo")
            assert len(frontend.asked) == number
            assert (await detector.check()).is_empty


async def test_a_missing_environment_file_is_reported_and_stops_no_running_server(tmp_path: Path) -> None:
    variables = tmp_path / "demo.env"
    variables.write_text("SHARED_TOKEN=first-value\n")
    write_servers(tmp_path, demo=DEMO_ENTRY | {"envFile": str(variables)})
    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce())) as (host, _):
        detector = config_change_detector(host)
        await host.servers.ensure_ready("demo")
        variables.unlink()
        changes = await detector.check()
        assert [text for text in changes.problems if f"{variables} does not exist." in text]
        assert not changes.can_apply
        detector.apply(changes)
        assert (await detector.check()).is_empty
        assert host.servers.view("demo").state == "ready"


async def test_an_environment_file_of_a_server_that_was_not_started_is_not_offered(tmp_path: Path) -> None:
    variables = tmp_path / "demo.env"
    variables.write_text("SHARED_TOKEN=first-value\n")
    write_servers(tmp_path, demo=DEMO_ENTRY | {"envFile": str(variables), "disabled": True})
    async with open_setup(tmp_path) as (host, _):
        variables.write_text("SHARED_TOKEN=second-value\n")
        assert (await config_change_detector(host).check()).is_empty


async def test_a_server_restarts_when_a_command_asks_for_it(tmp_path: Path) -> None:
    write_servers(tmp_path, demo=DEMO_ENTRY)

    async def ignore(_change: ConfigChanges | McpHostError) -> None:
        return

    async with open_setup(tmp_path, frontend=ScriptedFrontend(TrustOnce(), TrustOnce())) as (host, _):
        server = (await host.servers.ensure_ready("demo")).config
        session = await host.servers.find("demo").session()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(config_change_detector(host).watch, ignore)
            await anyio.wait_all_tasks_blocked()
            requests = RestartRequests(tmp_path / "state")
            requests.add("demo", "/another/mcp.json")
            requests.add("gone", server.file)
            requests.add("demo", server.file)
            with anyio.fail_after(20):
                await session.wait_closed()
            tasks.cancel_scope.cancel()
        assert (await host.servers.ensure_ready("demo")).state == "ready"


async def _write_until(arrived: anyio.Event, home: Path) -> None:
    """Add a server by replacing mcp.json, as editors do, and wait until the host has noticed."""
    path = home / "config" / "mcp.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"mcpServers": {"demo": DEMO_ENTRY, "second": DEMO_ENTRY}}))
    os.replace(new, path)
    await arrived.wait()


async def test_a_manual_call_that_a_new_never_rule_stops_is_recorded_with_this_rule(tmp_path: Path) -> None:
    write_servers(tmp_path, demo=DEMO_ENTRY)

    async def forbid(_question: Any) -> Accept:
        write_settings(tmp_path, '[consent]\nnever = ["demo/order_tea"]\n')
        config_change_detector(host).apply(await config_change_detector(host).check())
        return Accept({"name": "Ada"})

    frontend, audit_log = ScriptedFrontend(TrustOnce(), forbid), create_audit_log(tmp_path)
    async with open_setup(tmp_path, frontend=frontend, audit_log=audit_log) as (host, _):
        with pytest.raises(ConsentDenied, match="never allows this: demo/order_tea"):
            await host.tools.call("demo", "order_tea", {})
        rows = await read_rows(audit_log, "tool")
    assert [(row.event, row.decision, row.grant) for row in rows] == [
        ("started", "", ""), ("ended", "not sent again: a rule forbids it", ""), ("decided", "deny", "demo/order_tea"),
    ]  # fmt: skip
