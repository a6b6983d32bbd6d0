"""Tests for the audit log: decisions and starts are on disk before they take effect, and secrets never are."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

from mcphost.auth.oauth_http import OAuthResponse
from mcphost.auth.tokens import TokenError, parse_token_response
from mcphost.config.schema import AuditConfig
from mcphost.errors import ConsentDenied
from mcphost.host.audit import answer_summary
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.audit.audit_summary import CONTENT_LIMIT, arguments_digest, to_redacted_json
from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import (
    Accept,
    AllowAlways,
    AllowOnce,
    AnyQuestion,
    ApproveTool,
    Deny,
    FillForm,
)
from mcphost.host.questions.sign_in import EnterPassphrase, PastedRedirect, SignInQuestion, UnlockSecrets
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges, ToolChange
from mcphost.redact import register_secret
from mcphost.serialization import dumps, encode, replace
from mcphost.store.audit_reader import AuditFilter, AuditReader
from mcphost.store.audit_store import AuditRow, AuditStore
from tests.fakes.frontend import ScriptedFrontend

pytestmark = pytest.mark.anyio

ASKED = ApproveTool(
    server="files", why="turn 1", call="c1", tool="write", arguments={"path": "/a", "api_key": "k" * 20}
)
TOOL = AuditSubject(kind="tool", server="files", name="write")


def create_log(folder: Path, **config: bool) -> AuditLog:
    return AuditLog(AuditStore(folder / "l.db", folder / "l.head"), AuditConfig(**config))


def stored_rows(folder: Path) -> tuple[AuditRow, ...]:
    return AuditReader(folder / "l.db").page(AuditFilter(), 100)[::-1][1:]


async def test_an_answer_is_recorded_on_disk_before_it_is_returned(tmp_path: Path) -> None:
    audit_log = create_log(tmp_path)
    answer = await audit_log.wrap_frontend(ScriptedFrontend(AllowOnce({"path": "/b"}))).ask(ASKED)
    # Another connection sees it now, before any flush or close.
    (row,) = stored_rows(tmp_path)
    assert answer == AllowOnce({"path": "/b"})
    assert (row.kind, row.event, row.decision, row.who) == ("tool", "answered", "once, edited", "person")
    assert row.arguments == arguments_digest({"path": "/b"}) != arguments_digest(ASKED.arguments)
    assert row.shown == hashlib.sha256(encode(ASKED)).hexdigest()
    await audit_log.close()


@pytest.mark.parametrize("secret", ["a", "files", "read_text_file_of_2026", "notifications/resources/list_changed"])
async def test_the_token_type_of_an_authorization_server_never_blanks_a_row(tmp_path: Path, secret: str) -> None:
    answer = dumps({"access_token": secret, "token_type": "x"}).encode()
    reply = OAuthResponse("https://as.example/token", 200, {"content-type": "application/json"}, answer)
    with pytest.raises(TokenError):
        parse_token_response(reply, "https://as.example")
    question = replace(ASKED, server=secret, tool=secret)
    act = AuditSubject(kind="tool", server=secret, name=secret)
    audit_log = create_log(tmp_path)
    await audit_log.wrap_frontend(ScriptedFrontend(AllowOnce())).ask(question)
    await audit_log.record_decision(act, "allow", who="grant", grant=secret)
    await audit_log.record_event(act, "kept", detail={secret: "x"})
    effect = await audit_log.start_span(act, who="grant", grant=secret)
    effect.end("done")
    await audit_log.close()
    assert [(row.server, row.subject) for row in stored_rows(tmp_path)] == [(secret, secret)] * 5
    assert [row.grant for row in stored_rows(tmp_path)] == ["", secret, "", secret, ""]
    assert json.loads(stored_rows(tmp_path)[2].detail) == {secret: "x"}


def issue_token(access: str) -> None:
    answer = dumps({"access_token": access, "token_type": "Bearer"}).encode()
    reply = OAuthResponse("https://as.example/token", 200, {"content-type": "application/json"}, answer)
    parse_token_response(reply, "https://as.example:8443/tenant")


@pytest.mark.parametrize(
    "text",
    [
        "/home/alice/report-2026.txt",
        "https://bank.example/transfer?to=DE02&amount=900",
        "alice.smith1984@example.com",
        "2026-12-01T03:46:00Z",
        "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        "[2001:db8:85a3::8a2e:370:7334]:8443",
        "C:/Users/alice/report2026.docx",
        "getUserAccountsByName2026",
        "The-server-was-stopped-after-10-seconds.",
        '","path":"/home/alice/report-2026.txt"',
    ],
)
async def test_a_token_that_equals_predictable_text_hides_no_argument(tmp_path: Path, text: str) -> None:
    issue_token(text)
    audit_log = create_log(tmp_path, content=True)
    arguments = {"a": f"delete {text} now", "path": "/home/alice/report-2026.txt"}
    span = await audit_log.start_span(replace(TOOL, arguments=arguments), who="rule")
    span.end("done")
    await audit_log.record_event(TOOL, "kept", detail={"why": f"It says {text}."})
    await audit_log.close()
    first, _, event = stored_rows(tmp_path)
    assert json.loads(json.loads(first.detail)["arguments"]) == arguments
    assert json.loads(event.detail) == {"why": f"It says {text}."}


@pytest.mark.parametrize(
    "token",
    [
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "9c1185a5c5e9fc54612808977ee8f548b2258d31",
        "ya29/aB3xK9+qLm2Zt7/Wv4Rp8==",
        "v1.Qm9yZWQ3-dF5k_2hT8sLx0",
    ],
)
async def test_the_audit_log_says_who_issued_a_hidden_token_and_how_to_recognize_it(tmp_path: Path, token: str) -> None:
    issue_token(token)
    audit_log = create_log(tmp_path, content=True)
    span = await audit_log.start_span(replace(TOOL, arguments={"a": f"delete {token} now"}), who="rule")
    span.end("done")
    await audit_log.record_event(TOOL, "kept", detail={"why": f"It says {token}."})
    await audit_log.close()
    first, _, event = stored_rows(tmp_path)
    digest = hashlib.sha256(token.encode()).hexdigest()[:16]
    mark = f"[secret from as.example:8443, {len(token)} characters, sha256 {digest}]"
    assert json.loads(json.loads(first.detail)["arguments"]) == {"a": f"delete {mark} now"}
    assert json.loads(event.detail) == {"why": f"It says {mark}."}


@pytest.mark.parametrize("name", ["sk-delete-everything-of-you-0001", "token:production-db", "AKIAABCDEFGHIJKLMNOP"])
async def test_names_that_look_like_secrets_stay_in_rows_and_are_found(tmp_path: Path, name: str) -> None:
    audit_log = create_log(tmp_path)
    await audit_log.wrap_frontend(ScriptedFrontend(AllowOnce())).ask(replace(ASKED, server=name, tool=name))
    effect = await audit_log.start_span(
        AuditSubject(kind="tool", server=name, name=name), who="rule", grant=f"{name}/{name}?a=b"
    )
    effect.end("done")
    await audit_log.record_event(
        AuditSubject(kind="grant", server=name, name=f"{name}/x?password=hunter22222"), "given", grant="id"
    )
    await audit_log.close()
    found = stored_rows(tmp_path)
    assert [(row.server, row.subject) for row in found[:3]] == [(name, name)] * 3
    assert found[1].grant == f"{name}/{name}?a=b"
    assert found[3].subject == f"{name}/x?password=[secret]"
    assert len(AuditReader(tmp_path / "l.db").page(AuditFilter(server=name), 9)) == 4


async def test_a_name_with_a_value_of_the_user_in_it_is_masked_and_still_found(tmp_path: Path) -> None:
    register_secret("my-own-password-of-2026")
    name = "x-my-own-password-of-2026"
    audit_log = create_log(tmp_path)
    await audit_log.wrap_frontend(ScriptedFrontend(AllowOnce())).ask(replace(ASKED, server=name, tool="write"))
    await audit_log.close()
    (row,) = stored_rows(tmp_path)
    assert row.server.startswith("x-[secret] [sha256 ")
    assert AuditReader(tmp_path / "l.db").page(AuditFilter(server=name), 9) == (row,)
    assert not AuditReader(tmp_path / "l.db").page(AuditFilter(server="x-"), 9)


async def test_a_command_in_a_row_loses_its_secrets(tmp_path: Path) -> None:
    audit_log = create_log(tmp_path)
    effect = await audit_log.start_span(
        AuditSubject(kind="process", server="s", name="run --api-key=abcdefgh12345"), who="flag"
    )
    effect.end("closed")
    await audit_log.close()
    assert [row.subject for row in stored_rows(tmp_path)] == ["run --api-key=[secret]"] * 2


@pytest.mark.parametrize(
    ("kept", "decision"), [((), "held back"), (("a",), "kept some"), (("a", "sk-abcdefghijklmnopqrstu"), "kept")]
)
async def test_which_changed_tools_were_kept_is_recorded(tmp_path: Path, kept: tuple[str, ...], decision: str) -> None:
    names = ("a", "sk-abcdefghijklmnopqrstu")
    changes = tuple(ToolChange(tool=name, digest="d", difference=()) for name in names)
    audit_log = create_log(tmp_path)
    await audit_log.wrap_frontend(ScriptedFrontend(AcceptToolChanges(kept))).ask(
        ReviewToolChanges(server="s", why="w", changes=changes)
    )
    await audit_log.close()
    (row,) = stored_rows(tmp_path)
    assert row.decision == decision
    detail = json.loads(row.detail)
    assert (detail["kept"], detail["held_back"]) == (list(kept), [name for name in names if name not in kept])


def test_every_kind_of_answer_has_its_own_words() -> None:
    classes: set[type[Any]] = set()
    for question in get_args(AnyQuestion):
        (answer,) = get_args(question.__orig_bases__[0])
        classes |= set(get_args(answer)) or {answer}
    assert AllowAlways in classes
    assert {class_.__name__ for class_ in classes} - {"bool", "AcceptToolChanges"} <= set(answer_summary.ANSWER_LABELS)


async def test_a_question_that_is_withdrawn_is_recorded_too(tmp_path: Path) -> None:
    audit_log, frontend = create_log(tmp_path), ScriptedFrontend()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(audit_log.wrap_frontend(frontend).ask, ASKED)
        await frontend.asked_now.wait()
        tasks.cancel_scope.cancel()
    await audit_log.close()
    assert [(row.event, row.who) for row in stored_rows(tmp_path)] == [("withdrawn", "nobody")]


async def test_calls_that_must_be_recorded_and_cannot_be_are_refused(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a file where a folder should be")
    audit_log = create_log(tmp_path / "no", required=True)
    assert await audit_log.wrap_frontend(ScriptedFrontend(AllowOnce())).ask(ASKED) == Deny()
    with pytest.raises(ConsentDenied, match="audit log"):
        await audit_log.start_span(TOOL, who="grant")
    with pytest.raises(ConsentDenied, match="audit log"):
        await audit_log.record_decision(TOOL, "allow", who="grant")


async def test_otherwise_work_continues_and_rows_are_written_later(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a file where a folder should be")
    audit_log = create_log(tmp_path / "no", required=False)
    assert await audit_log.wrap_frontend(ScriptedFrontend(AllowOnce())).ask(ASKED) == AllowOnce()
    effect = await audit_log.start_span(TOOL, who="once")
    (tmp_path / "no").unlink()
    effect.end("ok")
    await audit_log.close()
    found = stored_rows(tmp_path / "no")
    assert [row.event for row in found] == ["answered", "started", "ended"]
    assert found[2].about == found[1].seq


async def test_without_the_setting_for_content_no_arguments_or_answers_are_recorded(tmp_path: Path) -> None:
    audit_log = create_log(tmp_path)
    await audit_log.wrap_frontend(ScriptedFrontend(Deny("because of my reasons"))).ask(ASKED)
    act = replace(TOOL, arguments={"path": "/a"})
    await audit_log.record_decision(act, "allow", who="grant")
    (await audit_log.start_span(act, who="grant")).end("ok")
    await audit_log.close()
    for row in stored_rows(tmp_path):
        assert "/a" not in row.detail
        assert "my reasons" not in row.detail
        assert row.event == "ended" or row.arguments


async def test_no_row_contains_a_secret_anywhere(tmp_path: Path) -> None:
    audit_log, key = create_log(tmp_path, content=True), "sk-abcdefghijklmnopqrstuvwxyz0123"
    act = AuditSubject(kind="process", server="s", name=f"run --token {key}", arguments={"x": key})
    await audit_log.wrap_frontend(ScriptedFrontend(AllowOnce())).ask(replace(ASKED, server="s", tool="t", why=key))
    await audit_log.record_decision(act, "allow", who="rule", grant=f"s/t?k={key}")
    await audit_log.record_event(act, "kept", who="person", detail={"covers": [f"argument 1: {key}"]})
    (await audit_log.start_span(act, who="rule", grant=f"s/t?k={key}")).end("ok")
    await audit_log.close()
    assert [row.event for row in stored_rows(tmp_path)] == ["answered", "decided", "kept", "started", "ended"]
    for row in stored_rows(tmp_path):
        assert key not in dumps(row), row


async def test_a_browser_is_recorded_before_it_opens_by_the_place_alone(tmp_path: Path) -> None:
    audit_log, recorded = create_log(tmp_path), list[tuple[str, str]]()

    async def browse(url: str) -> bool:
        recorded.append((url, stored_rows(tmp_path)[-1].subject))
        return True

    opened = audit_log.wrap_open_url(browse)
    assert opened is not None
    assert await opened("https://me:hunter2@example.com/pay?card=4711")
    assert recorded == [("https://me:hunter2@example.com/pay?card=4711", "https://example.com")]
    await audit_log.close()
    (tmp_path / "no").write_text("a file where a folder should be")
    strict = create_log(tmp_path / "no", required=True).wrap_open_url(browse)
    assert strict is not None
    with pytest.raises(ConsentDenied, match="audit log"):
        await strict("https://example.com/other")
    assert len(recorded) == 1


async def test_rows_waiting_in_memory_are_bounded_and_beyond_that_nothing_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcphost.store.audit_store.MAX_PENDING_ROWS", 3)
    (tmp_path / "no").write_text("a file where a folder should be")
    audit_log = create_log(tmp_path / "no", required=False)
    frontend = audit_log.wrap_frontend(ScriptedFrontend(AllowOnce(), AllowOnce(), AllowOnce()))
    assert [await frontend.ask(ASKED) for _ in range(3)] == [AllowOnce(), AllowOnce(), Deny()]
    with pytest.raises(ConsentDenied, match="audit log"):
        await audit_log.record_decision(TOOL, "allow", who="grant")


def test_arguments_have_one_digest_in_any_order_and_no_other_values_have_it() -> None:
    assert arguments_digest({"a": 1, "b": {"c": 2, "d": 3}}) == arguments_digest({"b": {"d": 3, "c": 2}, "a": 1})
    odd = [{"a": value} for value in (1, 1.0, "1", True, None, [1], 0, -0.0, 10**400, float("inf"), "\ud800")]
    assert len({arguments_digest(item) for item in odd}) == len(odd)


def test_content_has_no_value_under_the_name_of_a_secret_and_keeps_counts() -> None:
    shown = to_redacted_json({"login": {"password": ["x"], "pin": 1234}, "max_tokens": 400, "keys": ["a"], "key": "b"})
    assert json.loads(shown) == {
        "login": {"password": ["[secret]"], "pin": "[secret]"}, "max_tokens": 400, "keys": ["a"], "key": "b",
    }  # fmt: skip


def test_content_is_cut_after_secrets_were_removed() -> None:
    secret = "correct horse battery staple 1"
    register_secret(secret)
    text = to_redacted_json({"x": "y" * (CONTENT_LIMIT - 16) + secret})
    assert "correct" not in text
    assert len(text) <= CONTENT_LIMIT + 1


def test_words_of_a_row_end_somewhere() -> None:
    assert len(to_redacted_json({"x": "y" * 10 * CONTENT_LIMIT})) == CONTENT_LIMIT + 1


FIELDS = (Field(name="n", kind="integer", default=3, maximum=9), Field(name="t", kind="text"))
FORM = FillForm(server="s", why="w", message="m", fields=FIELDS)


@pytest.mark.parametrize(
    ("given", "sent"), [({}, {"n": 3}), ({"n": None, "t": "x"}, {"t": "x"}), ({"n": 4}, {"n": 4}), ({"n": 10}, None)]
)
async def test_the_row_of_a_form_is_about_the_sent_content_including_defaults(
    tmp_path: Path, given: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    audit_log = create_log(tmp_path, content=True)
    await audit_log.wrap_frontend(ScriptedFrontend(Accept(given))).ask(FORM)
    await audit_log.close()
    (row,) = stored_rows(tmp_path)
    assert row.arguments == arguments_digest(sent)
    assert json.loads(json.loads(row.detail)["answer"])["content"] == (given if sent is None else sent)


@pytest.mark.parametrize(
    ("question", "answer", "secret"),
    [
        (ASKED, AllowOnce(), "k" * 20),
        (UnlockSecrets(server="", why="w", file="f", note=""), EnterPassphrase("open sesame"), "open sesame"),
        (
            SignInQuestion(
                server="s", why="w", url="https://as.example/a?state=abcdefgh12", host="as.example", issuer="i"
            ),
            PastedRedirect("http://127.0.0.1/cb?code=topsecretcode"),
            "topsecretcode",
        ),
        (
            FillForm(server="s", why="w", message="m", fields=(Field(name="pin", kind="text", secret=True),)),
            Accept({"pin": "no-hex-digits"}),  # four digits may occur in a digest of the file by chance
            "no-hex-digits",
        ),
    ],
)
async def test_with_it_content_is_recorded_but_no_secret(
    tmp_path: Path, question: Any, answer: Any, secret: str
) -> None:
    audit_log = create_log(tmp_path, content=True)
    await audit_log.wrap_frontend(ScriptedFrontend(answer)).ask(question)
    await audit_log.close()
    (row,) = stored_rows(tmp_path)
    assert "shown" in row.detail
    with closing(sqlite3.connect(tmp_path / "l.db")) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert secret.encode() not in (tmp_path / "l.db").read_bytes()
    assert (row.arguments == "") == isinstance(question, FillForm | SignInQuestion | UnlockSecrets)
