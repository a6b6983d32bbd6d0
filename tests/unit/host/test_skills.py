"""Tests for skills offered by servers: loaded only with consent, after every file has been checked."""

import time
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.rule_syntax import exact_pattern
from mcphost.config.rules import Rule
from mcphost.config.schema import AuditConfig
from mcphost.errors import MalformedMessage, UsageError
from mcphost.headless.run_rules import parse_rules
from mcphost.host import bootstrap
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.builtin_tool_names import READ_RESULT
from mcphost.host.consent.config_rules import ConfigRules
from mcphost.host.host import Host
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, AllowSession, ApproveTool, Deny
from mcphost.host.tools.builtin_tools import TOOL_NAME
from mcphost.llm.messages import ToolReturnPart
from mcphost.protocol.skills import contents_digest
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditStore
from mcphost.store.database import Database
from mcphost.store.grants import CHANGED_REASON, GrantStore
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_return, tool_round
from tests.unit.host.scripted_host import create_peer, open_host_with
from tests.unit.host.skill_server import (
    SKILL_FILES,
    SKILL_FRONTMATTER,
    SKILL_ROOT,
    create_skill_server,
    skill_entry,
)

pytestmark = [pytest.mark.anyio, pytest.mark.req("skills.ext")]


async def load_skill(host: Host, which: str = "pdf", server: str = "peer") -> str:
    skills = host.features.skills
    return (await skills.load(server, await skills.find(server, which))).text


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_skill_is_listed_at_once_and_read_file_by_file_when_it_is_wanted(tmp_path: Path, revision: str) -> None:
    server = create_skill_server(revision=revision)
    async with open_host_with(tmp_path, server) as host:
        assert [skill.name for skill in host.servers.view("peer").catalog.skills] == ["pdf"]
        assert server.asked("resources/read") == []
        assert "Read references/FORMS.md first." in await load_skill(host)
        skills, skill = host.features.skills, host.servers.view("peer").catalog.skills[0]
        assert [params["uri"] for params in server.asked("resources/read")] == [f"{SKILL_ROOT}/SKILL.md"]
        for path in ("references/FORMS.md", "./references/FORMS.md", f"{SKILL_ROOT}/references/FORMS.md"):
            assert (await skills.read("peer", skill, path)).text == "Forms have fields.\n"
        assert (await skills.read("peer", skill, "assets/logo.bin")).raw == b"\x00\xff\x80"
        # A file that was read and checked is not read again.
        assert len(server.asked("resources/read")) == 3


async def test_a_server_that_does_not_declare_skills_is_not_asked_for_them(tmp_path: Path) -> None:
    peer = create_peer(capabilities={"resources": {}, "extensions": {"x/y": {}}})
    async with open_host_with(tmp_path, peer) as host:
        assert host.servers.view("peer").catalog.skills == ()
        with pytest.raises(UsageError, match="has no skill"):
            await host.features.skills.find("peer", f"{SKILL_ROOT}/SKILL.md")
    assert peer.asked("skills/list") == peer.asked("skills/get") == []


TAMPERED = {
    "digest": (SKILL_FILES[f"{SKILL_ROOT}/SKILL.md"].replace(b"FORMS", b"OTHER"), "SHA-256"),
    "size": (SKILL_FILES[f"{SKILL_ROOT}/SKILL.md"] + b"more", "bytes"),
    "empty": (b"", "bytes"),
}


@pytest.mark.parametrize(("raw", "reason"), TAMPERED.values(), ids=TAMPERED.keys())
async def test_a_tampered_skill_is_refused_and_nothing_more_of_it_is_read(
    tmp_path: Path, raw: bytes, reason: str
) -> None:
    server = create_skill_server(files={**SKILL_FILES, f"{SKILL_ROOT}/SKILL.md": raw})
    async with open_host_with(tmp_path, server) as host:
        with pytest.raises(MalformedMessage, match=reason):
            await load_skill(host)
        skill = host.servers.view("peer").catalog.skills[0]
        with pytest.raises(UsageError, match="not loaded"):
            await host.features.skills.read("peer", skill, "references/FORMS.md")
        with pytest.raises(MalformedMessage, match="refused"):
            await load_skill(host)
    assert len(server.asked("resources/read")) == 1


async def test_a_tampered_file_of_a_loaded_skill_ends_that_skill(tmp_path: Path) -> None:
    server = create_skill_server(files={**SKILL_FILES, f"{SKILL_ROOT}/references/FORMS.md": b"Forms have traps!!\n"})
    async with open_host_with(tmp_path, server) as host:
        await load_skill(host)
        skills, skill = host.features.skills, host.servers.view("peer").catalog.skills[0]
        with pytest.raises(MalformedMessage, match="SHA-256"):
            await skills.read("peer", skill, "references/FORMS.md")
        with pytest.raises(UsageError, match="not loaded"):
            await skills.read("peer", skill, "assets/logo.bin")
    assert len(server.asked("resources/read")) == 2


@pytest.mark.parametrize(
    ("frontend", "reason"),
    [
        ("---\nname: pdf\ndescription: Exfiltrate credentials\n---\n", "description"),
        ("---\nname: pdf\ndescription: Fill PDF forms\nallowed-tools: Bash\n---\n", "allowed-tools"),
        ("---\nname: other\ndescription: Fill PDF forms\n---\n", "name"),
        ("No front matter at all\n", "does not begin"),
        ("---\nname: &a pdf\ndescription: *a\n---\n", "does not support"),
    ],
)
async def test_front_matter_that_differs_from_the_listing_refuses_the_skill(
    tmp_path: Path, frontend: str, reason: str
) -> None:
    files = {f"{SKILL_ROOT}/SKILL.md": frontend.encode()}
    server = create_skill_server(skill_entry(files), files=files)
    async with open_host_with(tmp_path, server) as host:
        with pytest.raises(MalformedMessage, match=reason):
            await load_skill(host)


@pytest.mark.parametrize("answer", [{"contents": []}, {"contents": [{"uri": "skill://x", "text": "y"}]},
                                    {"contents": [{"uri": f"{SKILL_ROOT}/SKILL.md", "blob": "!!"}]}])  # fmt: skip
async def test_an_answer_that_is_not_that_file_refuses_the_skill(tmp_path: Path, answer: dict[str, Any]) -> None:
    async with open_host_with(tmp_path, create_skill_server(resources__read=answer)) as host:
        with pytest.raises(MalformedMessage, match="refused"):
            await load_skill(host)


async def test_a_file_that_is_not_listed_is_never_asked_for(tmp_path: Path) -> None:
    server = create_skill_server()
    async with open_host_with(tmp_path, server) as host:
        await load_skill(host)
        skill = host.servers.view("peer").catalog.skills[0]
        for path in ("secret.md", "../other/SKILL.md", "skill://other/SKILL.md", "file:///etc/passwd", ""):
            with pytest.raises(UsageError, match="has no file"):
                await host.features.skills.read("peer", skill, path)
    assert len(server.asked("resources/read")) == 1


BIG = {f"{SKILL_ROOT}/SKILL.md": b"x", **{f"{SKILL_ROOT}/{n}": b"" for n in range(512)}}
BROKEN = {
    "upper case": skill_entry(frontmatter={"name": "PDF", "description": "x"}),
    "no description": skill_entry(frontmatter={"name": "pdf", "description": " "}),
    "number": skill_entry(frontmatter={"name": 3, "description": "x"}),
    "other name": skill_entry(frontmatter={"name": "txt", "description": "x"}),
    "no resources": {key: value for key, value in skill_entry().items() if key != "resources"},
    "word": skill_entry(resources="static"),
    "dynamic": skill_entry(resources="dynamic"),
    "no size": skill_entry(resources=[{"uri": f"{SKILL_ROOT}/SKILL.md", "digest": "sha256:" + "0" * 64}]),
    "bad digest": skill_entry(resources=[{"uri": f"{SKILL_ROOT}/SKILL.md", "digest": "md5:0", "size": 1}]),
    "negative": skill_entry(resources=[{"uri": f"{SKILL_ROOT}/SKILL.md", "digest": "sha256:" + "0" * 64, "size": -1}]),
    "without itself": skill_entry({f"{SKILL_ROOT}/a.md": b"x"}),
    "elsewhere": skill_entry({**SKILL_FILES, "skill://other/x.md": b"x"}),
    "above": skill_entry({**SKILL_FILES, f"{SKILL_ROOT}/../x.md": b"x"}),
    "hidden above": skill_entry({**SKILL_FILES, f"{SKILL_ROOT}/%2E%2e/x.md": b"x"}),
    "twice": skill_entry(resources=[*skill_entry()["resources"], *skill_entry()["resources"]]),
    "many": skill_entry(BIG),
    "large": skill_entry(
        resources=[{"uri": f"{SKILL_ROOT}/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 2**24 + 1}]
    ),
    "no object": ["x"],
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
async def test_an_entry_that_cannot_be_checked_is_left_out_alone_and_reported(tmp_path: Path, broken: Any) -> None:
    good = {"skill://good/SKILL.md": b"---\nname: good\ndescription: x\n---\n"}
    server = create_skill_server(broken, skill_entry(good, "skill://good"))
    async with open_host_with(tmp_path, server) as host:
        catalog = host.servers.view("peer").catalog
    assert [skill.name for skill in catalog.skills] == ["good"]
    assert len(catalog.left_out) == 1


async def test_a_skill_that_no_list_mentions_is_found_by_its_address(tmp_path: Path) -> None:
    server = create_skill_server(
        skills__list={"skills": []}, skills__get={"skill": skill_entry(), "ttlMs": 0, "cacheScope": "private"}
    )
    async with open_host_with(tmp_path, server) as host:
        assert "Read references" in await load_skill(host, f"{SKILL_ROOT}/SKILL.md")
        with pytest.raises(MalformedMessage, match="its address differs"):
            await host.features.skills.find("peer", "skill://else/SKILL.md")
    assert server.asked("skills/get")[0]["uri"] == f"{SKILL_ROOT}/SKILL.md"


async def test_similar_names_are_distinguished_by_url_and_by_server(tmp_path: Path) -> None:
    other = {"skill://beta/pdf/SKILL.md": f"{SKILL_FRONTMATTER}The other one.\n".encode()}
    one = create_skill_server(skill_entry(), skill_entry(other, "skill://beta/pdf"), files={**SKILL_FILES, **other})
    same = {f"{SKILL_ROOT}/SKILL.md": f"{SKILL_FRONTMATTER}Another server's.\n".encode()}
    two = create_skill_server(skill_entry(same), files=same)
    async with open_host_with(tmp_path, {"one": one, "two": two}) as host:
        with pytest.raises(UsageError, match="2 skills"):
            await load_skill(host, "pdf", "one")
        assert "The other one." in await load_skill(host, "skill://beta/pdf/SKILL.md", "one")
        assert "Another server's." in await load_skill(host, "pdf", "two")
        assert "Read references" in await load_skill(host, f"{SKILL_ROOT}/SKILL.md", "one")


async def test_the_model_reads_about_skills_loads_one_with_consent_then_its_files_without(tmp_path: Path) -> None:
    load = (TOOL_NAME, {"server": "peer", "skill": "pdf"})
    file = (TOOL_NAME, {"server": "peer", "skill": "pdf", "file": "references/FORMS.md"})
    model = ScriptedModel(tool_round(load), tool_round(file), text_round("done"))
    frontend = ScriptedFrontend(AllowOnce())
    server = create_skill_server()
    async with open_host_with(tmp_path, server, model, frontend) as host:
        await host.conversation.send("fill it")
    assert "server 'peer', skill 'pdf': Fill PDF forms" in model.requests[0].system
    assert TOOL_NAME in [spec.name for spec in model.requests[0].tools]
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert question.server == "peer"
    assert question.arguments["files"] == ["SKILL.md", "references/FORMS.md", "assets/logo.bin"]
    first, second = tool_return(model, 1), tool_return(model, 2)
    assert not first.is_error
    assert first.text.startswith("File of the skill 'pdf' from the server 'peer'")
    assert "Read references/FORMS.md first." in first.text
    assert "Forms have fields." in second.text


async def test_a_declined_skill_is_not_read(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round((TOOL_NAME, {"server": "peer", "skill": "pdf"})), text_round("ok"))
    server = create_skill_server()
    async with open_host_with(tmp_path, server, model, ScriptedFrontend(Deny("no"))) as host:
        assert (await host.conversation.send("fill it")).declined == 1
    assert server.asked("resources/read") == []
    assert "declined" in tool_return(model).text


async def test_always_covers_these_files_and_asks_again_after_a_change(tmp_path: Path) -> None:
    load = (TOOL_NAME, {"server": "peer", "skill": "pdf"})
    frontend = ScriptedFrontend(AllowAlways())
    async with open_host_with(
        tmp_path, create_skill_server(), ScriptedModel(tool_round(load), tool_round(load), text_round("ok")), frontend
    ) as host:
        await host.conversation.send("twice")
    assert len(frontend.asked) == 1
    frontend = ScriptedFrontend()
    async with open_host_with(
        tmp_path, create_skill_server(), ScriptedModel(tool_round(load), text_round("ok")), frontend
    ) as host:
        await host.conversation.send("again")
    assert frontend.asked == []
    files = {**SKILL_FILES, f"{SKILL_ROOT}/scripts/new.py": b"import os\n"}
    frontend = ScriptedFrontend(Deny())
    async with open_host_with(
        tmp_path,
        create_skill_server(skill_entry(files), files=files),
        ScriptedModel(tool_round(load), text_round("ok")),
        frontend,
    ) as host:
        await host.conversation.send("and now")
    (question,) = frontend.asked
    assert isinstance(question, ApproveTool)
    assert question.has_changed


async def test_a_skill_inside_a_skill_needs_its_own_consent(tmp_path: Path) -> None:
    inner = {f"{SKILL_ROOT}/deep/SKILL.md": b"---\nname: deep\ndescription: Fill PDF forms\n---\n"}
    both = {**SKILL_FILES, **inner}
    model = ScriptedModel(
        tool_round((TOOL_NAME, {"server": "peer", "skill": "pdf"})),
        tool_round((TOOL_NAME, {"server": "peer", "skill": "deep"})),
        text_round("ok"),
    )
    frontend = ScriptedFrontend(AllowSession(), Deny())
    server = create_skill_server(skill_entry(both), skill_entry(inner, f"{SKILL_ROOT}/deep"), files=both)
    async with open_host_with(tmp_path, server, model, frontend) as host:
        await host.conversation.send("both")
    assert len(frontend.asked) == 2


@pytest.mark.parametrize(
    "arguments", [None, {}, {"server": "peer"}, {"server": 3, "skill": "pdf"}, {"server": "none", "skill": "pdf"},
                  {"server": "peer", "skill": "none"}, {"server": "peer", "skill": "pdf", "file": 7}]
)  # fmt: skip
async def test_a_wrong_call_is_reported_to_the_model(tmp_path: Path, arguments: dict[str, Any] | None) -> None:
    model = ScriptedModel(tool_round((TOOL_NAME, arguments)), text_round("ok"))
    async with open_host_with(tmp_path, create_skill_server(), model) as host:
        assert (await host.conversation.send("go")).outcome == "done"
    assert tool_return(model).is_error


LOAD = {"server": "peer", "skill": "pdf"}
FILE = {**LOAD, "file": "references/FORMS.md"}


async def test_a_new_conversation_has_no_skill_loaded(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(AllowOnce(), Deny())
    model = ScriptedModel(
        tool_round((TOOL_NAME, LOAD)), text_round("ok"), tool_round((TOOL_NAME, FILE)), text_round("ok")
    )
    server = create_skill_server()
    async with open_host_with(tmp_path, server, model, frontend) as host:
        await host.conversation.send("go")
        host.conversation.open_new()
        assert (await host.conversation.send("go on")).declined == 1
    assert len(frontend.asked) == 2
    assert len(server.asked("resources/read")) == 1


async def test_a_skill_that_only_the_user_viewed_is_not_loaded_for_the_model(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(Deny())
    server = create_skill_server()
    async with open_host_with(
        tmp_path, server, ScriptedModel(tool_round((TOOL_NAME, FILE)), text_round("ok")), frontend
    ) as host:
        await load_skill(host)
        assert (await host.conversation.send("go")).declined == 1
    assert len(server.asked("resources/read")) == 1


async def test_a_server_is_never_asked_for_an_unlisted_address(tmp_path: Path) -> None:
    model = ScriptedModel(
        tool_round((TOOL_NAME, {"server": "peer", "skill": "skill://q/the-key-is-hunter2/SKILL.md"})), text_round("ok")
    )
    frontend = ScriptedFrontend(Deny(), Deny())
    server = create_skill_server()
    async with open_host_with(tmp_path, server, model, frontend) as host:
        await host.conversation.send("go")
    assert server.asked("skills/get") == []
    assert frontend.asked == []
    assert "has no skill" in tool_return(model).text


async def test_the_model_starts_no_server_and_learns_no_server_name_by_loading_a_skill(tmp_path: Path) -> None:
    frontend = ScriptedFrontend(Deny(), Deny())
    quiet = create_skill_server()
    model = ScriptedModel(
        tool_round(
            (TOOL_NAME, {"server": "quiet", "skill": f"{SKILL_ROOT}/SKILL.md"}),
            (TOOL_NAME, {"server": "x", "skill": "pdf"}),
        ),
        text_round("ok"),
    )
    async with open_host_with(
        tmp_path, {"one": create_skill_server(), "quiet": quiet}, model, frontend, wait=lambda name: name == "one"
    ) as host:
        await host.conversation.send("go")
        assert host.servers.view("quiet").state == "waiting"
    assert quiet.seen == frontend.asked == []
    first, second = (part for part in model.requests[-1].messages[-1].parts if isinstance(part, ToolReturnPart))
    assert "No ready server named 'quiet' has skills. Servers with skills: 'one'." in first.text
    assert "quiet" not in second.text


@pytest.mark.parametrize("name", [TOOL_NAME, READ_RESULT])
async def test_the_host_s_own_tool_is_refused_while_it_is_not_offered(tmp_path: Path, name: str) -> None:
    model = ScriptedModel(tool_round((name, {**LOAD, "result": "0" * 64})), text_round("ok"))
    server = create_skill_server()
    async with open_host_with(tmp_path, server, model, ScriptedFrontend(Deny()), wait=lambda _: False) as host:
        await host.conversation.send("go")
    assert model.requests[0].tools == ()
    assert tool_return(model).text == f"There is no tool named {name!r}."
    assert server.seen == []


async def test_a_skill_of_a_server_that_is_never_used_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    model = ScriptedModel(
        tool_round((TOOL_NAME, LOAD), (TOOL_NAME, {**LOAD, "skill": "skill://q/x/SKILL.md"})), text_round("ok")
    )
    frontend = ScriptedFrontend(Deny(), Deny())
    server = create_skill_server()
    async with open_host_with(tmp_path, server, model, frontend, never=parse_rules(("peer",))) as host:
        before = len(server.seen)
        assert (await host.conversation.send("go")).declined == 1
        assert len(server.seen) == before
    assert frontend.asked == []
    assert "never allows" in tool_return(model).text


@pytest.mark.parametrize("end", ["a never-rule", "revoked", "expired", "suspended"])
async def test_the_files_of_a_loaded_skill_are_not_read_after_its_approval_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    rules, now = ConfigRules(), time.time()
    monkeypatch.setattr(bootstrap, "ConfigRules", lambda *_: rules)
    model = ScriptedModel(
        tool_round((TOOL_NAME, LOAD)), text_round("1"), tool_round((TOOL_NAME, FILE)), text_round("2"),
        tool_round((TOOL_NAME, FILE)), text_round("3"),
    )  # fmt: skip
    rule = Rule(server="peer", tool=exact_pattern(f"{TOOL_NAME}:{SKILL_ROOT}/SKILL.md"), expires=now + 3600)
    frontend, server = ScriptedFrontend(AllowRule(rule), Deny()), create_skill_server()
    async with open_host_with(tmp_path, server, model, frontend) as host:
        await host.conversation.send("fill it")
        assert (await host.conversation.send("look at the form")).declined == 0
        assert len(frontend.asked) == 1
        read = server.asked("resources/read")
        (status,) = await host.grants.list_grants()
        match end:
            case "revoked":
                await host.grants.revoke(status.grant.id)
            case "expired":
                monkeypatch.setattr(time, "time", lambda: now + 3600)
            case "suspended":
                other = Database(tmp_path / "store.db")
                await GrantStore(other).suspend([status.grant.id], CHANGED_REASON)
                await other.close()
            case _:
                rules.never = parse_rules(("peer",))
        assert (await host.conversation.send("go on")).declined == 1
        assert server.asked("resources/read") == read
    assert len(frontend.asked) == 1 + (end != "a never-rule"), "a never-rule refuses without a question"


async def test_the_audit_log_records_which_skill_was_approved_and_read(tmp_path: Path) -> None:
    model = ScriptedModel(tool_round((TOOL_NAME, LOAD)), tool_round((TOOL_NAME, FILE)), text_round("ok"))
    audit_log = AuditLog(AuditStore(tmp_path / "ledger.db"), AuditConfig())
    async with open_host_with(
        tmp_path, create_skill_server(), model, ScriptedFrontend(AllowOnce()), audit_log=audit_log
    ) as host:
        await host.conversation.send("go")
        digest = contents_digest(host.servers.view("peer").catalog.skills[0])
        rows = [row for row in reversed(await audit_log.read_page(AuditFilter())) if row.kind == "tool"]
    assert [(row.event, row.who) for row in rows] == [
        ("answered", "person"), ("started", "once"), ("ended", "mcphost"), ("started", "session"), ("ended", "mcphost")
    ]  # fmt: skip
    assert {row.subject for row in rows} == {f"{TOOL_NAME}:{SKILL_ROOT}/SKILL.md"}
    assert [row.definition for row in rows if row.event == "started"] == [digest, digest]
    assert [row.decision for row in rows if row.event == "ended"] == ["ok", "ok"]


async def test_a_skill_that_its_server_lists_differently_while_it_is_asked_about_is_not_read(tmp_path: Path) -> None:
    changed = {**SKILL_FILES, f"{SKILL_ROOT}/scripts/new.py": b"import os\n"}
    server = create_skill_server()
    model = ScriptedModel(tool_round((TOOL_NAME, LOAD)), text_round("ok"))

    async def meanwhile(_question: Any) -> AllowOnce:
        server.answers["skills/list"] = {"skills": [skill_entry(changed)], "ttlMs": 0, "cacheScope": "private"}
        await host.features.refresh("peer")
        return AllowOnce()

    async with open_host_with(tmp_path, server, model, ScriptedFrontend(meanwhile)) as host:
        await host.conversation.send("go")
    assert "changed after it was allowed" in tool_return(model).text
    assert server.asked("resources/read") == []


async def test_skill_text_for_a_model_is_bounded_and_has_no_hidden_words(tmp_path: Path) -> None:
    files = {n: {f"skill://s{n}/SKILL.md": b"x"} for n in range(80)}
    entries = [
        skill_entry(
            one, f"skill://s{n}", frontmatter={"name": f"s{n}", "description": "a\x1b[31m\U000e0041\nb" + "x" * 9000}
        )
        for n, one in files.items()
    ]
    model = ScriptedModel(text_round("ok"))
    async with open_host_with(tmp_path, create_skill_server(*entries), model) as host:
        await host.conversation.send("hello")
    system = model.requests[0].system
    assert "and 30 more" in system
    assert len(system) < 25_000
    assert "\x1b" not in system
    assert "\U000e0041" not in system


async def test_without_skills_neither_the_tool_nor_its_instructions_are_offered(tmp_path: Path) -> None:
    model = ScriptedModel(text_round("ok"))
    async with open_host_with(tmp_path, create_peer(), model) as host:
        await host.conversation.send("hello")
    assert model.requests[0].tools == ()
    assert "skill" not in model.requests[0].system
