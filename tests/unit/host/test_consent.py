"""Tests for which calls may run without a question: rules, grants, their limits, and the servers' own claims."""

import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import AuditConfig
from mcphost.errors import ConsentDenied
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_log import AuditLog, create_in_memory_log
from mcphost.host.consent.config_rules import ConfigRules
from mcphost.host.consent.grants import ActiveGrants, ToolHistory, ToolIdentity, make_grant
from mcphost.host.consent.policy import RULE_MISMATCH, Approval, AutoApprovalCheck, ConsentPolicy
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lazy
from mcphost.host.questions.frontend import RefusingFrontend
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, AllowSession, ApproveTool, Deny
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import Raw, replace
from mcphost.store.audit_store import AuditStore
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.grants import CHANGED_REASON, GrantStore
from tests.fakes.frontend import ScriptedFrontend
from tests.unit.host.audit_rows import create_audit_log, read_rows

pytestmark = pytest.mark.anyio


def create_definition(name: str, words: str = "") -> ToolDefinition:
    raw = Raw(f'{{"name":"{name}","description":"{words}"}}'.encode())
    return ToolDefinition(name, raw)


def create_identity(tool: str = "t", words: str = "", **more: Any) -> ToolIdentity:
    now = create_definition(tool, words)
    beside = {name: create_definition(name) for name in ("a", "b", "t")}
    fields: dict[str, Any] = {"server": "s", "server_digest": "sd", "folder": "/", **more}
    return ToolIdentity(tool=tool, digest=now.digest, server_tools={**beside, tool: now}, **fields)


NOTHING = ConfigRules()


class ConsentProgram:
    """The consent policy of one process; `again` returns that of another process with the same database."""

    def __init__(
        self,
        path: Path,
        frontend: Any,
        checker: SchemaValidator,
        written: ConfigRules = NOTHING,
        audit_log: AuditLog | None = None,
        unasked: AutoApprovalCheck | None = None,
    ) -> None:
        self.path, self.frontend, self.checker = path, frontend, checker
        database = Database(path)
        self.store = ConversationStore(database)
        self.conversation = ActiveConversation(Lazy(lambda: self.store), EventBus())
        self.conversation.current.id = "c1"
        self.told: list[str] = []
        self.grants = GrantStore(database)
        matching = RuleMatcher(checker)
        self.active_grants = ActiveGrants(
            self.grants, matching, self.conversation, lambda error: self.told.append(error.message)
        )
        self.audit_log = audit_log or create_in_memory_log()
        self.consent = ConsentPolicy(self.active_grants, frontend, matching, written, self.audit_log, unasked)

    def again(
        self, *answers: Any, written: ConfigRules = NOTHING, unasked: AutoApprovalCheck | None = None
    ) -> "ConsentProgram":
        return ConsentProgram(self.path, ScriptedFrontend(*answers), self.checker, written, unasked=unasked)

    async def decide(
        self, about: ToolIdentity, *, changed: bool = False, editable: bool = True, fits: Any = None, **arguments: Any
    ) -> Approval | Deny:
        def ask(seen: ToolHistory) -> ApproveTool:
            return ApproveTool(
                server=about.server, why="", call="", tool=about.tool, arguments=arguments,
                first_use=seen.first_use, has_changed=seen.changed, has_server_changed=seen.server_changed,
                editable=editable,
            )  # fmt: skip

        with anyio.fail_after(20):
            return await self.consent.authorize(about, arguments, ask, call="", has_changed=changed, is_valid=fits)


@pytest.fixture
async def open_consent(tmp_path: Path) -> AsyncIterator[Callable[..., ConsentProgram]]:
    checker = SchemaValidator()
    yield lambda *answers, written=NOTHING: ConsentProgram(
        tmp_path / "s.db", ScriptedFrontend(*answers), checker, written
    )
    await checker.close()


Make = Callable[..., ConsentProgram]
NO = Deny("no")


def allow_rule(text: str, **more: Any) -> AllowRule:
    return AllowRule(replace(parse_rule(text), **more))


async def test_a_rule_allows_covered_calls_from_then_on_and_in_the_next_run(open_consent: Make) -> None:
    consent = open_consent(allow_rule("s/t?n=<10"), NO)
    first = await consent.decide(create_identity(), n=5)
    assert isinstance(first, Approval)
    assert (first.source, bool(first.grant_id)) == ("grant", True)
    assert await consent.decide(create_identity(), n=6) == replace(first, arguments={"n": 6})
    assert await consent.decide(create_identity(), n=50) == NO
    after = consent.again(NO)
    assert await after.decide(create_identity(), n=7) == replace(first, arguments={"n": 7})
    assert await after.decide(create_identity(), n=10) == NO


@pytest.mark.parametrize("text", ["s/t?n=<5", "s/other", "x/t", "s/t?m=1", "s/t?n=re:5", "s/t?n=under:/"])
async def test_a_rule_that_does_not_cover_its_own_call_is_refused_and_not_stored(open_consent: Make, text: str) -> None:
    consent = open_consent(allow_rule(text))
    assert await consent.decide(create_identity(), n=5) == Deny(RULE_MISMATCH)
    assert await consent.grants.list_all(include_revoked=True) == ()


async def test_a_rule_that_is_already_expired_allows_nothing(open_consent: Make) -> None:
    consent = open_consent(allow_rule("s/t", expires=time.time() - 1))
    assert await consent.decide(create_identity()) == Deny(RULE_MISMATCH)


@pytest.mark.parametrize("text", ["s", "s/*"])
async def test_a_grant_for_a_whole_server_covers_the_tools_it_had_then(open_consent: Make, text: str) -> None:
    consent = open_consent(allow_rule(text), NO)
    assert isinstance(await consent.decide(create_identity("t")), Approval)
    assert isinstance(await consent.decide(create_identity("a")), Approval)
    assert await consent.decide(create_identity("new")) == NO
    assert consent.frontend.asked[-1].has_changed is False


async def test_a_changed_tool_suspends_its_grants_for_good(open_consent: Make) -> None:
    consent = open_consent(AllowAlways(), NO, NO, AllowAlways())
    await consent.decide(create_identity())
    assert await consent.decide(create_identity(words="evil")) == NO
    assert (consent.frontend.asked[-1].has_changed, consent.frontend.asked[-1].first_use) == (True, False)
    assert (await consent.grants.list_for_server("s"))[0].suspended == CHANGED_REASON
    assert await consent.decide(create_identity()) == NO
    assert consent.frontend.asked[-1].has_changed is False
    await consent.decide(create_identity())
    assert isinstance(await consent.again().decide(create_identity()), Approval)


async def test_a_server_started_differently_is_asked_about_and_the_first_one_keeps_its_grants(
    open_consent: Make,
) -> None:
    consent = open_consent(AllowAlways(), NO)
    await consent.decide(create_identity())
    assert await consent.decide(create_identity(server_digest="other")) == NO
    assert isinstance(await consent.decide(create_identity()), Approval)


async def test_a_grant_is_bound_to_the_account_it_was_given_for(open_consent: Make) -> None:
    consent = open_consent(AllowAlways(), NO, NO)
    await consent.decide(create_identity(account="me"))
    assert await consent.decide(create_identity(account="you")) == NO
    assert await consent.decide(create_identity()) == NO
    assert isinstance(await consent.decide(create_identity(account="me")), Approval)


async def test_a_conversation_rule_ends_with_the_conversation_and_returns_with_it(open_consent: Make) -> None:
    consent = open_consent(allow_rule("s/t", scope="conversation"), NO)
    await consent.decide(create_identity())
    consent.conversation.current.id = "c2"
    assert await consent.decide(create_identity()) == NO
    consent.conversation.current.id = "c1"
    assert isinstance(await consent.decide(create_identity()), Approval)


async def test_a_project_rule_applies_only_where_mcphost_was_started(
    open_consent: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consent = open_consent(allow_rule("s/t", scope="project"))
    await consent.decide(create_identity())
    assert isinstance(await consent.again().decide(create_identity()), Approval)
    monkeypatch.chdir(tmp_path)
    assert await consent.again(NO).decide(create_identity()) == NO


class SteppingClock:
    """A clock that replaces `time.time` and returns `now`, which the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = time.time()
        monkeypatch.setattr(time, "time", lambda: self.now)


async def test_a_grant_ends_when_it_expires_also_when_the_clock_is_set_back_after_that(
    open_consent: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppingClock(monkeypatch)
    consent = open_consent(allow_rule("s/t", expires=clock.now + 3600), NO, NO)
    await consent.decide(create_identity())
    clock.now += 3599
    assert isinstance(await consent.decide(create_identity()), Approval)
    clock.now += 1
    assert await consent.decide(create_identity()) == NO
    clock.now -= 1800
    assert await consent.decide(create_identity()) == NO


@pytest.mark.parametrize("seen", ["used", "another"])
async def test_an_expiring_grant_is_inactive_while_the_clock_is_before_known_events(
    open_consent: Make, monkeypatch: pytest.MonkeyPatch, seen: str
) -> None:
    clock = SteppingClock(monkeypatch)
    consent = open_consent(allow_rule("s/t", expires=clock.now + 3600), AllowAlways(), NO)
    await consent.decide(create_identity())
    clock.now += 3000
    await consent.decide(create_identity("t" if seen == "used" else "a"))
    await consent.grants.write_uses()
    clock.now -= 2000
    consent.frontend.answers = [NO]
    assert await consent.decide(create_identity()) == NO
    clock.now += 1900  # within the allowed clock difference
    assert isinstance(await consent.decide(create_identity()), Approval)


async def test_an_expiring_grant_is_inactive_while_the_clock_is_before_its_creation(
    open_consent: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppingClock(monkeypatch)
    consent = open_consent(allow_rule("s/t", expires=clock.now + 3600), AllowAlways(), NO)
    await consent.decide(create_identity())
    await consent.decide(create_identity("a"))
    clock.now -= 86_400
    assert isinstance(await consent.decide(create_identity("a")), Approval)
    assert await consent.decide(create_identity()) == NO
    clock.now += 86_400
    assert isinstance(await consent.decide(create_identity()), Approval)


@pytest.mark.req("sec.consent.tools", "ui.rules")
async def test_a_grant_that_is_revoked_elsewhere_ends_at_once(open_consent: Make) -> None:
    consent = open_consent(AllowAlways(), NO)
    approval = await consent.decide(create_identity())
    assert isinstance(approval, Approval)
    await consent.again().grants.revoke(approval.grant_id)
    assert await consent.decide(create_identity()) == NO
    assert consent.frontend.asked[-1].has_changed is False


async def test_only_the_first_question_of_a_session_about_a_tool_says_so(open_consent: Make) -> None:
    consent = open_consent(NO, AllowOnce(), AllowOnce(), NO, NO, NO)
    for words in ("", "", "", "", "changed"):
        await consent.decide(create_identity(words=words), n=5)
    assert [question.first_use for question in consent.frontend.asked] == [True, True, False, False, True]
    after = consent.again(NO)
    await after.decide(create_identity(), n=5)
    assert after.frontend.asked[-1].first_use is True


@pytest.mark.parametrize("answer", [AllowSession(), AllowAlways(), allow_rule("s/t")])
async def test_the_call_with_which_a_grant_is_given_counts_as_its_first_use(open_consent: Make, answer: Any) -> None:
    consent = open_consent(answer)
    await consent.decide(create_identity())
    await consent.grants.write_uses()
    (grant,) = (*consent.active_grants.session_grants(), *await consent.grants.list_all())
    assert (grant.uses, bool(grant.last_used)) == (1, True)


async def test_without_a_place_nothing_is_allowed_for_it(
    open_consent: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    consent = open_consent(allow_rule("s/t", scope="project"), NO)
    assert await consent.decide(create_identity()) == Deny(RULE_MISMATCH)
    assert await consent.decide(create_identity()) == NO


async def test_a_conversation_rule_applies_before_the_conversation_has_an_id_and_to_no_other(
    open_consent: Make,
) -> None:
    consent = open_consent(allow_rule("s/t", scope="conversation"), NO)
    first, other = (Conversation(Lazy(lambda: consent.store), pytest.fail) for _ in range(2))
    consent.conversation.current = first
    assert isinstance(await consent.decide(create_identity()), Approval)
    assert isinstance(await consent.decide(create_identity()), Approval)
    consent.conversation.current = other
    assert await consent.decide(create_identity()) == NO


async def test_another_way_to_start_a_server_with_another_tool_suspends_nothing_of_the_first(
    open_consent: Make,
) -> None:
    consent = open_consent(AllowAlways(), NO)
    await consent.decide(create_identity())
    assert await consent.decide(create_identity(server_digest="other", words="evil")) == NO
    assert isinstance(await consent.decide(create_identity()), Approval)


async def test_session_grants_carry_over_with_exactly_the_kept_tools(open_consent: Make) -> None:
    consent, now = open_consent(AllowSession()), create_identity(words="new")
    before = create_identity()
    await consent.decide(before)
    for server, server_digest, digest in (("x", "sd", before.digest), ("s", "other", before.digest), ("s", "sd", "d")):
        await consent.active_grants.carry_over(server, server_digest, "t", digest, now.digest)
        consent.frontend.answers = [NO]
        assert await consent.decide(now) == NO
        assert (consent.frontend.asked[-1].first_use, consent.frontend.asked[-1].has_changed) == (False, True)
    await consent.active_grants.carry_over("s", "sd", "t", before.digest, now.digest)
    assert (await consent.decide(now)).source == "session"  # type: ignore[union-attr]


@pytest.mark.req("sec.consent.tools")
async def test_a_revoked_grant_of_this_session_asks_again(open_consent: Make) -> None:
    consent = open_consent(AllowSession(), NO)
    approval = await consent.decide(create_identity())
    assert isinstance(approval, Approval)
    assert await consent.decide(create_identity()) == Approval("session", {}, approval.grant_id)
    assert [(grant.id, grant.uses) for grant in consent.active_grants.session_grants()] == [(approval.grant_id, 2)]
    assert consent.active_grants.revoke_session(approval.grant_id) is not None
    assert await consent.decide(create_identity()) == NO
    assert consent.active_grants.revoke_session(approval.grant_id) is None


async def test_the_same_answer_for_this_session_is_one_grant(open_consent: Make) -> None:
    consent = open_consent()
    grant = make_grant(create_identity(), parse_rule("s/t"))
    first, second = consent.active_grants.grant_session(grant), consent.active_grants.grant_session(grant)
    assert first.id != second.id
    assert consent.active_grants.session_grants() == (second,)
    consent.active_grants.grant_session(make_grant(create_identity(), parse_rule("s/t?n=1")))
    assert len(consent.active_grants.session_grants()) == 2


async def test_the_session_ends_with_the_program(open_consent: Make) -> None:
    consent = open_consent(AllowSession())
    approval = await consent.decide(create_identity())
    assert await consent.decide(create_identity()) == approval
    assert await consent.again(NO).decide(create_identity()) == NO


async def test_a_grant_answers_only_the_waiting_questions_that_it_covers(open_consent: Make) -> None:
    consent = open_consent()
    done: dict[int, Approval | Deny] = {}

    async def ask(number: int) -> None:
        done[number] = await consent.decide(create_identity(), n=number)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number in (1, 2, 30):
                tasks.start_soon(ask, number)
            while consent.frontend.waiting < 3:
                await consent.frontend.asked_now.wait()
            consent.frontend.answers = [allow_rule("s/t?n=<10")]
            await consent.decide(create_identity(), n=4)
            while len(done) < 2:
                await anyio.lowlevel.checkpoint()
            assert sorted(done) == [1, 2]
            assert consent.frontend.waiting == 1
            tasks.cancel_scope.cancel()
    assert len(consent.frontend.asked) == 4


@pytest.mark.parametrize("never", ["s/t", "s", "s/*", "s/t?p=under:/etc", "s/t?p=re:/etc/.*", "s/t?p=re:("])
async def test_nothing_overrides_the_never_list(open_consent: Make, never: str) -> None:
    forbidding = ConfigRules(allow=(parse_rule("s"),), never=(parse_rule(never),))
    consent = open_consent(AllowAlways())
    await consent.decide(create_identity(is_read_only_trusted=True), p="/etc/passwd")
    for answer in (AllowOnce(), AllowAlways(), allow_rule("s")):
        strict = consent.again(answer, written=forbidding)
        verdict = await strict.decide(create_identity(is_read_only_trusted=True), p="/etc/passwd")
        assert isinstance(verdict, Deny)
        assert "never allows" in verdict.reason
        assert strict.frontend.asked == []


@pytest.mark.parametrize("answer", [AllowOnce(), AllowSession(), AllowAlways()])
async def test_a_never_rule_that_is_added_while_the_question_is_open_refuses_the_call(
    open_consent: Make, answer: Any
) -> None:
    rules = ConfigRules()

    def allow(question: Any) -> Any:
        rules.never = (parse_rule("s/t"),)
        return answer

    program = open_consent(allow, written=rules)
    assert isinstance(await program.decide(create_identity("t")), Deny)
    assert program.active_grants.session_grants() == ()


async def test_arguments_that_the_user_edits_are_held_against_the_never_list_too(open_consent: Make) -> None:
    consent = open_consent(
        AllowOnce({"p": "/etc/passwd"}), written=ConfigRules(never=(parse_rule("s/t?p=under:/etc"),))
    )
    verdict = await consent.decide(create_identity(), p="/tmp/x")
    assert isinstance(verdict, Deny)
    assert "s/t?p=under:/etc" in verdict.reason


async def test_a_rule_saved_with_edited_arguments_covers_those_and_not_the_original_ones(
    open_consent: Make,
) -> None:
    consent = open_consent(AllowRule(parse_rule("s/t?n=<10"), {"n": 5}), NO)
    verdict = await consent.decide(create_identity(), n=50)
    assert isinstance(verdict, Approval)
    assert (verdict.source, verdict.arguments) == ("grant", {"n": 5})
    assert await consent.decide(create_identity(), n=50) == NO
    assert isinstance(await consent.decide(create_identity(), n=6), Approval)
    other = open_consent(AllowRule(parse_rule("s/t?n=>40"), {"n": 5}))
    assert await other.decide(create_identity("a"), n=50) == Deny(RULE_MISMATCH)
    strict = open_consent(
        AllowRule(parse_rule("s/b"), {"p": "/etc/x"}), written=ConfigRules(never=(parse_rule("s/b?p=under:/etc"),))
    )
    assert isinstance(await strict.decide(create_identity("b"), p="/tmp"), Deny)


async def test_no_rule_is_kept_with_edited_arguments_that_the_tool_does_not_take(open_consent: Make) -> None:
    async def fits(arguments: dict[str, Any]) -> bool:
        return arguments["n"] != 5

    consent = open_consent(AllowRule(parse_rule("s/t"), {"n": 5}))
    assert await consent.decide(create_identity(), fits=fits, n=50) == Approval("once", {"n": 5})
    assert await consent.grants.list_all() == ()


@pytest.mark.parametrize("answer", [AllowOnce({"n": 5}), AllowRule(parse_rule("s/t"), {"n": 5})])
async def test_a_call_that_cannot_be_edited_does_not_run_with_other_arguments(open_consent: Make, answer: Any) -> None:
    consent = open_consent(answer)
    assert isinstance(await consent.decide(create_identity(), editable=False, n=50), Deny)
    assert await consent.grants.list_all() == ()


async def test_an_undecidable_value_is_refused_by_the_never_list_and_asked_about_by_a_grant(
    open_consent: Make,
) -> None:
    strict = open_consent(written=ConfigRules(never=(parse_rule("s/t?p=under:/etc"),)))
    assert isinstance(await strict.decide(create_identity(), p="file:///etc/passwd"), Deny)
    consent = open_consent(allow_rule("s/t?p=under:/tmp"), NO)
    await consent.decide(create_identity(), p="/tmp/x")
    assert await consent.decide(create_identity(), p="file:///tmp/x") == NO
    told = open_consent(NO, written=ConfigRules(allow=(parse_rule("s/t?p=under:/tmp"),)))
    assert await told.decide(create_identity("b"), p="/tmp/x") == NO
    assert (
        await told.again(NO, written=ConfigRules(allow=(parse_rule("s/a?p=under:/tmp"),))).decide(
            create_identity("a"), p="file:///tmp/x"
        )
        == NO
    )


async def test_a_command_line_rule_allows_and_a_tool_changed_since_a_grant_is_still_asked_about(
    open_consent: Make,
) -> None:
    written = ConfigRules(allow=(parse_rule("s/t?n=<10"),))
    assert await open_consent(written=written).decide(create_identity(), n=1) == Approval("rule", {"n": 1})
    assert await open_consent(NO, written=written).decide(create_identity(), n=10) == NO
    await open_consent(AllowAlways()).decide(create_identity())
    assert await open_consent(NO, written=written).decide(create_identity(words="evil"), n=1) == NO
    assert await open_consent(NO, written=written).decide(create_identity("a"), n=1, changed=True) == NO


async def test_calls_without_a_question_are_denied_if_they_must_be_recorded_and_cannot_be(
    open_consent: Make, tmp_path: Path
) -> None:
    (tmp_path / "no").write_text("a file where a folder should be")
    audit_log = AuditLog(AuditStore(tmp_path / "no" / "l.db"), AuditConfig(required=True))
    strict = ConsentProgram(
        tmp_path / "s.db",
        ScriptedFrontend(),
        open_consent().checker,
        ConfigRules(allow=(parse_rule("s/t"),)),
        audit_log,
    )
    verdict = await strict.decide(create_identity())
    assert isinstance(verdict, Deny)
    assert "audit log" in verdict.reason


async def test_a_grant_is_bound_to_the_definition_shown_and_not_to_the_current_listing(
    open_consent: Make,
) -> None:
    shown, listed_since = create_identity(), create_identity(words="evil")
    for answer in (AllowAlways(), AllowSession(), allow_rule("s/t"), allow_rule("s")):
        consent = open_consent(answer, NO)
        assert isinstance(await consent.decide(replace(shown, server_tools=listed_since.server_tools)), Approval)
        assert await consent.decide(listed_since) == NO
        for grant in await consent.grants.list_for_server("s"):
            await consent.grants.revoke(grant.id)


async def test_a_claim_counts_only_where_configured_and_not_for_changed_tools(open_consent: Make) -> None:
    assert await open_consent().decide(create_identity(is_read_only_trusted=True)) == Approval("claim", {})
    assert await open_consent(NO).decide(create_identity(is_read_only_trusted=False)) == NO
    assert await open_consent(NO).decide(create_identity(is_read_only_trusted=True), changed=True) == NO
    await open_consent(AllowAlways()).decide(create_identity())
    assert await open_consent(NO).decide(create_identity(words="evil", is_read_only_trusted=True)) == NO


def manual_tool(tool: str, words: str = "") -> Any:
    """Return a tool for a manual call by the user; the server is the one that `create_identity` describes."""
    now = create_definition(tool, words)
    connection = SimpleNamespace(
        config=SimpleNamespace(name="s", trust_annotations=False), digest="sd", account="", folder="/",
        listing=SimpleNamespace(tools={tool: now}),
    )  # fmt: skip
    return SimpleNamespace(connection=connection, definition=now)


async def test_a_manual_call_runs_unless_it_is_forbidden_or_its_approved_definition_changed(
    open_consent: Make,
) -> None:
    await open_consent(AllowAlways()).decide(create_identity())
    consent = open_consent(written=ConfigRules(never=(parse_rule("s/a?n=<5"),)))
    await consent.consent.check_manual_call(manual_tool("t"), {})
    await consent.consent.check_manual_call(manual_tool("b"), {})
    await consent.consent.check_manual_call(manual_tool("a"), {"n": 6})
    with pytest.raises(ConsentDenied, match="changed after it was allowed"):
        await consent.consent.check_manual_call(manual_tool("t", "evil"), {})
    for given in (1, "1"):
        with pytest.raises(ConsentDenied, match="never allows this"):
            await consent.consent.check_manual_call(manual_tool("a"), {"n": given})


@pytest.fixture
async def open_recorded(tmp_path: Path) -> AsyncIterator[Callable[..., ConsentProgram]]:
    """Open a consent policy whose audit log is a file."""
    checker, audit_log = SchemaValidator(), create_audit_log(tmp_path)
    yield lambda *answers, written=NOTHING: ConsentProgram(
        tmp_path / "s.db", ScriptedFrontend(*answers), checker, written, audit_log
    )
    await audit_log.close()
    await checker.close()


async def test_a_manual_call_that_is_refused_is_recorded_with_what_refused_it(open_recorded: Make) -> None:
    await open_recorded(AllowAlways()).decide(create_identity())
    consent = open_recorded(written=ConfigRules(never=(parse_rule("s/a?n=<5"),)))
    await consent.consent.check_manual_call(manual_tool("b"), {})
    for tool, arguments in ((manual_tool("a"), {"n": 1}), (manual_tool("t", "evil"), {})):
        with pytest.raises(ConsentDenied):
            await consent.consent.check_manual_call(tool, arguments)
    rows = await read_rows(consent.audit_log, "tool")
    assert [(row.event, row.subject, row.decision, row.who, row.grant) for row in rows] == [
        ("decided", "a", "deny", "config", "s/a?n=<5"),
        ("decided", "t", "deny", "mcphost", ""),
    ]


async def test_a_rule_of_an_answer_that_does_not_cover_the_call_is_recorded_as_what_refused_it(
    open_recorded: Make,
) -> None:
    consent = open_recorded(allow_rule("s/t?n=<5"), allow_rule("s/t", expires=time.time() - 1))
    assert await consent.decide(create_identity(), n=5) == Deny(RULE_MISMATCH)
    assert await consent.decide(create_identity(), n=5) == Deny(RULE_MISMATCH)
    rows = await read_rows(consent.audit_log, "tool")
    refused = [("decided", "deny", "rule", "s/t?n=<5"), ("decided", "deny", "rule", "s/t")]
    assert [(row.event, row.decision, row.who, row.grant) for row in rows] == refused


async def test_edited_arguments_that_cannot_be_edited_are_recorded_as_refused(open_recorded: Make) -> None:
    consent = open_recorded(AllowOnce({"n": 6}))
    assert isinstance(await consent.decide(create_identity(), editable=False, n=5), Deny)
    (row,) = await read_rows(consent.audit_log, "tool")
    assert (row.event, row.decision, row.who) == ("decided", "deny", "mcphost")


@pytest.mark.parametrize("who", ["person", "program"])
@pytest.mark.parametrize("answer", [AllowSession(), AllowAlways(), allow_rule("s/t")])
async def test_a_new_grant_is_recorded_with_who_gave_it(open_recorded: Make, who: str, answer: Any) -> None:
    consent = open_recorded(answer)
    consent.frontend.who = who
    await consent.decide(create_identity())
    rows = await read_rows(consent.audit_log, "grant")
    assert [(row.event, row.who) for row in rows] == [("given", who)]


async def test_auto_approval_is_checked_last_and_applies_only_when_nothing_else_decides(open_consent: Make) -> None:
    counted: list[str] = []

    def unasked(about: ToolIdentity, arguments: dict[str, Any]) -> int:
        counted.append(about.tool)
        return 7

    first = open_consent(AllowAlways())
    await first.decide(create_identity("a"))
    written = ConfigRules(allow=(parse_rule("s/b"),), never=(parse_rule("s/n"),))
    now = first.again(NO, NO, written=written, unasked=unasked)
    assert (await now.decide(create_identity("a"))).source == "grant"
    assert await now.decide(create_identity("b")) == Approval("rule", {})
    assert await now.decide(create_identity("c", is_read_only_trusted=True)) == Approval("claim", {})
    assert isinstance(await now.decide(create_identity("n")), Deny)
    assert await now.decide(create_identity("a", "evil")) == NO
    assert await now.decide(create_identity("t"), changed=True) == NO
    assert counted == []
    assert await now.decide(create_identity("t")) == Approval("autonomy", {}, auto_period=7)
    assert counted == ["t"]


async def test_without_a_frontend_calls_that_no_rule_covers_are_refused(open_consent: Make, tmp_path: Path) -> None:
    consent = open_consent(AllowAlways())
    await consent.decide(create_identity())
    alone = ConsentProgram(tmp_path / "s.db", RefusingFrontend(), consent.checker)
    assert isinstance(await alone.decide(create_identity()), Approval)
    assert await alone.decide(create_identity("a")) == Deny()


async def test_uses_are_counted_and_written_after_the_calls(open_consent: Make) -> None:
    consent = open_consent(AllowAlways())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consent.active_grants.write_uses)
        for _ in range(4):
            await consent.decide(create_identity())
        tasks.cancel_scope.cancel()
    assert [grant.uses for grant in await consent.grants.list_for_server("s")] == [4]


async def test_a_failing_store_allows_nothing_stored_and_keeps_new_answers_for_the_run(
    open_consent: Make, tmp_path: Path
) -> None:
    consent = open_consent(AllowAlways(), allow_rule("s/t?n=1"), NO)
    await consent.decide(create_identity())
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("DROP TABLE grants")
    assert isinstance(await consent.decide(create_identity(), n=1), Approval)
    assert consent.frontend.answers == [NO]
    assert (await consent.decide(create_identity(), n=1)).source == "session"  # type: ignore[union-attr]
    assert await consent.decide(create_identity(), n=2) == NO
    assert "no such table" in consent.told[0]


async def test_a_grant_kept_in_memory_because_the_store_fails_still_expires(
    open_consent: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppingClock(monkeypatch)
    consent = open_consent(AllowOnce(), allow_rule("s/t", expires=clock.now + 3600), NO, NO)
    await consent.decide(create_identity())
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("DROP TABLE grants")
    await consent.decide(create_identity())
    assert (await consent.decide(create_identity())).source == "session"  # type: ignore[union-attr]
    clock.now -= 86_400
    assert await consent.decide(create_identity()) == NO
    clock.now += 86_400 + 3600
    assert await consent.decide(create_identity()) == NO


@pytest.mark.parametrize("answer", [AllowSession(), AllowAlways()])
async def test_a_permission_that_no_longer_applies_because_its_server_was_edited_is_named(
    open_consent: Make, answer: Any
) -> None:
    consent = open_consent(answer, NO, NO)
    await consent.decide(create_identity())
    await consent.decide(create_identity(server_digest="edited"))
    assert consent.frontend.asked[-1].has_server_changed is True
    await consent.decide(create_identity("a"))
    assert consent.frontend.asked[-1].has_server_changed is False
