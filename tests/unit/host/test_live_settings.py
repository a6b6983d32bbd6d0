"""Tests for sections of config.toml that apply while the host runs: what is marked, and when it takes effect."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from mcphost.config.rule_syntax import format_rule, parse_rule
from mcphost.config.schema import AuditConfig, HostConfig, ModelConfig, ScreenConfig
from mcphost.errors import ConsentDenied, ServerError, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.consent.config_rules import ConfigRules
from mcphost.host.questions.questions import (
    AllowOnce,
    AllowSession,
    ApproveTool,
    ApproveUnchanged,
    EditedRequest,
    LimitUsage,
    ReviewSampling,
    ShareSession,
    TrustOnce,
    TrustServer,
)
from mcphost.host.runtime_settings import LIVE_SECTIONS
from mcphost.host.server_requests.root_folders import file_uri
from mcphost.serialization import Struct, replace
from mcphost.store.audit_store import AuditStore
from mcphost.store.large_results import ResultStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.memory_backend import MemoryBackend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows import roots_server
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.setup_host import (
    DEMO_ENTRY,
    apply_settings,
    config_change_detector,
    open_setup,
    write_servers,
    write_settings,
)

pytestmark = pytest.mark.anyio
ROOTS_ENTRY = {"command": sys.executable, "args": [roots_server.__file__, "list"]}
MODEL = 'model = "openai/x"\n'


async def test_titles_are_written_by_a_model_from_the_change_on_and_no_longer_after_it(tmp_path: Path) -> None:
    answers = ("Paris.", "Rome.", "Capital of Italy", "Oslo.")
    model = ScriptedModel(*map(text_round, answers))
    write_settings(tmp_path, MODEL)
    async with open_setup(tmp_path, model_factory=lambda _: model) as (host, _):
        await host.conversation.send("what is the capital of france?")
        changes = await apply_settings(tmp_path, host, MODEL + "[titles]\nmode = 'model'\n")
        assert (changes.describe(), changes.needs_confirmation) == (("titles.mode = model",), True)
        assert host.conversation.title == "what is the capital of france?"
        host.conversation.open_new()
        await host.conversation.send("what is the capital of italy?")
        with anyio.fail_after(20):
            while host.conversation.title != "Capital of Italy":
                await anyio.lowlevel.checkpoint()
        await apply_settings(tmp_path, host, MODEL)
        host.conversation.open_new()
        await host.conversation.send("what is the capital of norway?")
        assert host.conversation.title == "what is the capital of norway?"
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("before", "after", "allows_more"),
    [
        ("", "[titles]\nmode = 'model'", True),
        ("[titles]\nmode = 'model'", "", False),
        ("", "[titles]\nmodel = 'other/x'", True),
        ("[titles]\nmodel = 'other/x'", "", False),
        ("", "[compaction]\nmodel = 'other/x'", True),
    ],
)
async def test_a_change_that_sends_more_or_loses_something_is_marked(
    tmp_path: Path, before: str, after: str, allows_more: bool
) -> None:
    write_settings(tmp_path, before)
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, after)
        (change,) = (await config_change_detector(host).check()).settings
        assert change.allows_more is allows_more


async def test_new_limits_of_stored_results_count_for_the_next_result(tmp_path: Path) -> None:
    results = ResultStore(tmp_path / "results")
    write_settings(tmp_path, "")
    async with open_setup(tmp_path, results=results) as (host, _):
        await host.results.save("a" * 900_000)
        newest = await host.results.save("b" * 900_000)
        changes = await apply_settings(tmp_path, host, "[results]\nmegabytes = 1\n")
        assert (changes.describe(), changes.needs_confirmation) == (("results.megabytes = 1",), True)
        assert [one.deletes_results for one in changes.settings] == [True]
        with pytest.raises(StoreError, match="over the limit of 1 MB"):
            await host.results.save("c" * 1_000_001)
        await host.results.save("d" * 10)
        assert len(list((tmp_path / "results").iterdir())) == 2
        assert len(await host.results.read_all(newest)) == 900_000
        (raised,) = (await apply_settings(tmp_path, host, "[results]\nmegabytes = 2\n")).settings
        assert (raised.allows_more, raised.deletes_results) == (True, False)
        await host.results.save("e" * 1_000_001)


async def test_changed_roots_are_sent_to_a_server_once_the_user_agrees_and_removed_ones_no_longer(
    tmp_path: Path,
) -> None:
    one, two = (tmp_path / name for name in ("one", "two"))
    one.mkdir()
    two.mkdir()
    write_settings(tmp_path, f"roots = ['{one}']\n")
    write_servers(tmp_path, peer=ROOTS_ENTRY)
    may_share = anyio.Event()

    async def share(_question: object) -> ShareSession:
        await may_share.wait()
        return ShareSession()

    frontend = ScriptedFrontend(TrustOnce(), ShareSession(), share)
    async with open_setup(tmp_path, frontend=frontend) as (host, _):

        async def call(tool: str) -> list[str]:
            return json.loads((await host.tools.call("peer", tool, {})).text)

        assert await call("ask") == [file_uri(one)]
        changes = await apply_settings(tmp_path, host, f"roots = ['{one}', {{path = '{two}', name = '2'}}]\n")
        assert (changes.describe(), changes.needs_confirmation) == ((f"add the folder {two} (2)",), True)
        assert [one.allows_more for one in changes.settings] == [True]
        assert await call("where") == [file_uri(one)]  # a new folder is not sent without a question
        may_share.set()
        assert await call("ask") == [file_uri(one), file_uri(two)]
        assert len(frontend.asked) == 3
        changes = await apply_settings(tmp_path, host, f"roots = [{{path = '{two}', name = '2'}}]\n")
        assert changes.describe() == (f"remove the folder {one}",)
        assert not any(one.allows_more for one in changes.settings)
        with anyio.fail_after(20):
            while await call("where") != [file_uri(two)]:  # the server requests them when it is told of the change
                await anyio.lowlevel.checkpoint()
        assert (await config_change_detector(host).check()).is_empty


async def test_roots_that_change_during_the_question_about_them_are_neither_added_nor_sent(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
    write_settings(tmp_path, f"roots = ['{folders[0]}', '{folders[1]}']\n")
    write_servers(tmp_path, peer=ROOTS_ENTRY)
    frontend = ScriptedFrontend(TrustOnce())
    async with open_setup(tmp_path, frontend=frontend) as (host, _):

        async def change_and_agree(question: Any) -> ShareSession:
            del question
            await apply_settings(tmp_path, host, f"roots = ['{folders[0]}', '{folders[2]}']\n")
            return ShareSession()

        frontend.answers.append(change_and_agree)
        text = (await host.tools.call("peer", "ask", {})).text
        assert json.loads(text) == [file_uri(folders[0])]


async def test_changed_sampling_counts_for_the_next_request_but_not_for_an_open_review(tmp_path: Path) -> None:
    def make(config: ModelConfig) -> ScriptedModel:
        model = ScriptedModel(*(text_round("fine") for _ in range(4)))
        model.name = config.name
        return model

    write_settings(tmp_path, MODEL)
    write_servers(tmp_path, demo=DEMO_ENTRY)
    frontend = ScriptedFrontend(TrustOnce())
    async with open_setup(tmp_path, frontend=frontend, model_factory=make) as (host, _):

        async def change_and_use_the_new_model(question: ReviewSampling) -> EditedRequest:
            assert [one.name for one in question.models] == ["openai/x"]
            text = (
                "[sampling]\nrequests_per_session = 1\nmodels = [{name = 'other/y', api_base = 'https://y.example'}]\n"
            )
            changes = await apply_settings(tmp_path, host, MODEL + text)
            assert changes.describe() == (
                "allow sampling with other/y at https://y.example",
                "sampling.requests_per_session = 1",
            )
            assert [(one.name, one.allows_more) for one in changes.settings] == [
                ("sampling.models", True),
                ("sampling.requests_per_session", False),
            ]
            return EditedRequest(model="other/y")

        async def call() -> str:
            return (await host.tools.call("demo", "ask_model", {"question": "why?"})).text

        frontend.answers.append(change_and_use_the_new_model)
        with pytest.raises(ServerError, match="unknown model"):
            await call()
        with pytest.raises(ConsentDenied, match="at most 1 sampling requests"):
            await call()
        changes = await apply_settings(tmp_path, host, MODEL + "[sampling]\nrequests_per_session = 2\n")
        assert changes.describe() == (
            "no longer allow sampling with other/y at https://y.example",
            "sampling.requests_per_session = 2",
        )
        assert [one.allows_more for one in changes.settings] == [False, True]
        frontend.answers += [ApproveUnchanged(), ApproveUnchanged()]
        assert "fine" in await call()
        question = frontend.asked[-2]
        assert isinstance(question, ReviewSampling)
        assert [one.name for one in question.models] == ["openai/x"]
        assert LimitUsage("requests this run", 1, 2) in question.budget
        assert (await config_change_detector(host).check()).is_empty


async def test_another_order_of_the_sampling_models_is_a_change(tmp_path: Path) -> None:
    write_settings(tmp_path, "[sampling]\nmodels = ['a/x', {name = 'b/y', headers = {KEY = 'secret'}}]\n")
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, "[sampling]\nmodels = [{name = 'b/y', headers = {KEY = 'secret'}}, 'a/x']\n")
        changes = await config_change_detector(host).check()
        assert changes.describe() == ("allow sampling with b/y; headers: – → KEY, a/x",)


async def test_copied_arguments_are_asked_about_or_not_from_the_next_call_on(tmp_path: Path) -> None:
    secret = "The door code of the office is 4711-0815-XY"
    note, post = tool_round(("mail__add_note", {"text": secret})), tool_round(("web__add_note", {"text": secret}))
    model = ScriptedModel(note, tool_round(("mail__list_notes", {})), *([post, text_round("done")] * 4))
    ask = MODEL + "[consent]\norigins = 'ask'\n"
    write_settings(tmp_path, ask)
    write_servers(tmp_path, mail=DEMO_ENTRY, web=DEMO_ENTRY)
    frontend = ScriptedFrontend(TrustOnce(), TrustOnce(), *[AllowOnce()] * 2, AllowSession(), AllowOnce())
    async with open_setup(tmp_path, frontend=frontend, model_factory=lambda _: model) as (host, _):
        for name in ("mail", "web"):
            await host.servers.ensure_ready(name)
        await host.conversation.send("copy it")
        await host.conversation.send("again")
        assert len(frontend.asked) == 6  # the permission of the first turn does not name the other server
        changes = await apply_settings(tmp_path, host, MODEL)
        assert changes.describe() == ("consent.origins = mark",)
        assert [one.allows_more for one in changes.settings] == [True]
        await host.conversation.send("again")
        assert len(frontend.asked) == 6
        assert [one.allows_more for one in (await apply_settings(tmp_path, host, ask)).settings] == [False]
        frontend.answers.append(AllowOnce())
        await host.conversation.send("again")
        assert len(frontend.asked) == 7


async def test_a_setting_of_the_screen_that_needs_a_restart_is_reported_once_and_stays_in_use(tmp_path: Path) -> None:
    write_settings(tmp_path, "")
    async with open_setup(tmp_path) as (host, _):
        text = "[screen]\nreader = true\nlanguage = 'zh-CN'\npictures = 'half-blocks'\n"
        changes = await apply_settings(tmp_path, host, text)
        assert changes.describe() == ("screen.pictures = half-blocks",)
        assert [one.name for one in changes.at_start] == ["screen.reader", "screen.language"]
        assert all(one.restart_reason for one in changes.at_start)
        assert host.settings.screen == ScreenConfig(pictures="half-blocks")
        assert (await config_change_detector(host).check()).is_empty
        changes = await apply_settings(tmp_path, host, "[limits]\nmax_rounds = 7\n" + text.replace("true", "false"))
        assert (changes.describe(), changes.at_start) == (("limits.max_rounds = 7",), ())
        assert host.settings.screen == ScreenConfig(pictures="half-blocks")


async def test_another_way_to_draw_pictures_is_in_use_at_once(tmp_path: Path) -> None:
    write_settings(tmp_path, "[screen]\npictures = 'sixel'\n")
    async with open_setup(tmp_path) as (host, _):
        changes = await apply_settings(tmp_path, host, "[screen]\npictures = 'kitty'\n")
        assert (changes.describe(), changes.at_start) == (("screen.pictures = kitty",), ())
        assert host.settings.screen.pictures == "kitty"


async def test_texts_are_recorded_for_questions_that_are_asked_after_the_change(tmp_path: Path) -> None:
    audit_log = create_audit_log(tmp_path)
    recorded = MODEL + "[audit]\ncontent = true\n"
    call = tool_round(("demo__add", {"a": 1, "b": 2}))
    model = ScriptedModel(*[call, text_round("done")] * 3)
    write_settings(tmp_path, MODEL)
    write_servers(tmp_path, demo=DEMO_ENTRY)
    frontend = ScriptedFrontend(TrustOnce())
    async with open_setup(tmp_path, frontend=frontend, audit_log=audit_log, model_factory=lambda _: model) as (host, _):
        await host.servers.ensure_ready("demo")

        async def change_and_allow(question: ApproveTool) -> AllowOnce:
            assert question.tool == "add"
            changes = await apply_settings(tmp_path, host, recorded)
            assert changes.describe() == ("audit.content = true",)
            assert [one.allows_more for one in changes.settings] == [True]
            return AllowOnce()

        frontend.answers += [change_and_allow, AllowOnce(), AllowOnce()]
        await host.conversation.send("add")
        await host.conversation.send("add")
        assert not any(one.allows_more for one in (await apply_settings(tmp_path, host, MODEL)).settings)
        await host.conversation.send("add")
        rows = [row for row in await read_rows(audit_log, "tool") if row.event == "answered"]
        assert ["shown" in json.loads(row.detail) for row in rows] == [False, True, False]


async def test_a_required_record_is_required_from_the_change_on_but_not_dropped_before_a_restart(
    tmp_path: Path,
) -> None:
    (tmp_path / "no").write_text("a file in place of the folder of the log")
    audit_log = AuditLog(AuditStore(tmp_path / "no" / "audit.db"), AuditConfig(required=False))
    write_settings(tmp_path, "[audit]\nrequired = false\n")
    subject = AuditSubject(kind="tool", server="s", name="t")
    async with open_setup(tmp_path, audit_log=audit_log) as (host, _):
        await host.audit.record_decision(subject, "allow", who="rule")
        assert (await apply_settings(tmp_path, host, "")).describe() == ("audit.required = true",)
        with pytest.raises(ConsentDenied):
            await host.audit.record_decision(subject, "allow", who="rule")
        changes = await apply_settings(tmp_path, host, "[audit]\nrequired = false\n")
        assert ([one.name for one in changes.at_start], changes.settings) == (["audit.required"], ())
        with pytest.raises(ConsentDenied):
            await host.audit.record_decision(subject, "allow", who="rule")
        assert (await apply_settings(tmp_path, host, "")).is_empty


async def test_another_store_of_secrets_waits_for_a_restart_beside_what_is_applied(tmp_path: Path) -> None:
    backend = MemoryBackend()
    write_settings(tmp_path, "")
    async with open_setup(tmp_path, backend=backend) as (host, _):
        text = "[limits]\nmax_rounds = 7\n"
        changes = await apply_settings(tmp_path, host, f"{text}[secrets]\nstore = 'file'\n")
        assert changes.describe() == ("limits.max_rounds = 7",)
        assert [(one.describe(), bool(one.restart_reason)) for one in changes.at_start] == [
            ("secrets.store = file", True)
        ]
        assert (host.settings.secret_store, config_change_detector(host).config.secret_store) == ("", "file")
        assert (await apply_settings(tmp_path, host, text)).is_empty


async def test_never_rules_cover_an_alias_that_is_added_to_a_projects_file_while_the_host_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    write_servers(tmp_path, demo=DEMO_ENTRY)
    write_settings(tmp_path, "[consent]\nnever = ['demo/*']\n")
    frontend = ScriptedFrontend(TrustOnce())
    async with open_setup(tmp_path, frontend=frontend) as (host, setup):
        await setup.server_editor.add({"helper": DEMO_ENTRY}, "project")
        await host.servers.ensure_ready("helper")
        (asked,) = [one for one in frontend.asked if isinstance(one, TrustServer) and one.server == "helper"]
        assert "never: helper/*" in asked.restrictions
        with pytest.raises(ConsentDenied, match="never allows this: helper/"):
            await host.tools.call("helper", "list_notes", {})


def test_a_never_rule_replaces_the_same_rule_with_fewer_servers_of_origin() -> None:
    rules = ConfigRules(never=tuple(map(parse_rule, ("a/x", "web/*?from:mail", "web/*?from:bank"))))
    rules.forbid(map(parse_rule, ("web/*?from:mail,helper", "helper/x", "a/x")))
    assert [format_rule(rule) for rule in rules.never] == [
        "web/*?from:bank", "web/*?from:mail,helper", "helper/x", "a/x",
    ]  # fmt: skip


def test_a_never_rule_replaces_the_same_rule_in_another_spelling() -> None:
    rules = ConfigRules(never=(replace(parse_rule("web/post"), written="web/p%6Fst"),))
    rules.forbid([replace(parse_rule("web/post"), written="web/post")])
    assert [rule.written for rule in rules.never] == ["web/post"]


def test_a_never_rule_is_not_replaced_by_one_for_a_value_of_another_type() -> None:
    rules = ConfigRules(never=tuple(map(parse_rule, ("a/x?n=1", "a/x?from:mail,bank"))))
    rules.forbid(map(parse_rule, ("a/x?n=true", "a/x?from:mail,web", "a/x?from:bank,web")))
    assert [format_rule(rule) for rule in rules.never] == [
        "a/x?n=1", "a/x?from:mail,bank", "a/x?n=true", "a/x?from:mail,web", "a/x?from:bank,web",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["s{}/t", "web/*?from:mail,s{}"])
def test_thousands_of_never_rules_are_replaced_without_comparing_each_with_all(form: str) -> None:
    added = [parse_rule(form.format(number)) for number in range(2_000)]
    rules = ConfigRules(never=(parse_rule("a/x"), *added))
    before = time.process_time()
    rules.forbid(added)
    assert time.process_time() - before < 1.0
    assert len(rules.never) == 2_001


def test_each_section_of_the_settings_is_compared() -> None:
    config = HostConfig()
    sections = {name for name in config.__struct_fields__ if isinstance(getattr(config, name), Struct)}
    assert sections - {"model"} == set(LIVE_SECTIONS)
