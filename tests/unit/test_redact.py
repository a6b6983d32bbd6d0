"""Tests that known secrets are masked in logs, in the audit log and on the screen."""

import hashlib
import json
import random
import resource
import string
import subprocess
import sys
from typing import Any

import pytest

from mcphost.redact import (
    identifier_digest,
    is_probable_secret,
    is_unpredictable,
    redact,
    redact_command,
    redact_identifier,
    redact_patterns,
    redact_with_issuers,
    register_secret,
    register_server_secret,
)
from mcphost.secret_members import mask_members, may_have_secret_members, redact_values

LONG = "abcDEF123456ghiJKL789012mnoPQR345678"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Authorization: Bearer {LONG}", "Authorization: Bearer [secret]"),
        (f"key sk-{LONG}", "key [secret]"),
        (f"ghp_{LONG} github_pat_{LONG}", "[secret] [secret]"),
        (f"OPENAI_API_KEY={LONG}", "OPENAI_API_KEY=[secret]"),
        (f'{{"access_token": "{LONG}", "a": 1}}', '{"access_token": "[secret]", "a": 1}'),
        (f"https://me:{LONG}@h/p?x=1", "https://[secret]@h/p?x=1"),
        ("https://me:pa@ss@h/p", "https://[secret]@h/p"),
        ("postgres://me:pa#s?s@h/p", "postgres://[secret]@h/p"),
        ("https://evil.example?x@good.example/mcp", "https://evil.example?[secret]@good.example/mcp"),
        ("https://evil.example:443#x@good.example/mcp", "https://evil.example:443#[secret]@good.example/mcp"),
        ("https://me:pw@evil.example?x@good.example/mcp", "https://[secret]@evil.example?x@good.example/mcp"),
        ("https://[::1]:8080?x@good.example/mcp", "https://[::1]:8080?[secret]@good.example/mcp"),
        ("https://h/?x=me@good.example", "https://h/?x=me@good.example"),
        (f"https://h/cb?code={LONG}&state={LONG}&x=1", "https://h/cb?code=[secret]&state=[secret]&x=1"),
        (f"code_verifier={LONG}", "code_verifier=" + LONG),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "[secret]"),
        (f"https://h/bot123456789:AA{LONG}/getMe", "https://h/bot[secret]/getMe"),
        (f"/bot/99123456789:AA{LONG}", f"/bot/99123456789:AA{LONG}"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----\nafter", "[secret]\nafter"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nafter", "[secret]\nafter"),
    ],
)
def test_shapes_of_secrets_are_removed(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    "token",
    [
        f"pypi-AgEIcHlwaS5vcmc{LONG}",
        f"pypi-{LONG}{LONG}",
        f"SG.{LONG[:22]}.{LONG}-abcdef_",
        f"hvs.{LONG}",
        f"dop_v1_{LONG}",
        f"shpat_{LONG}",
        f"ya29.{LONG}",
        f"dckr_pat_{LONG}",
        f"ATATT3{LONG}",
        f"xapp-1-{LONG}",
        f"glrt-{LONG}",
        f"AGE-SECRET-KEY-1{LONG.upper()}",
        "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0",
    ],
)
def test_a_token_with_a_known_prefix_is_removed_from_text(token: str) -> None:
    assert redact(f"could not sign in with {token}: 403") == "could not sign in with [secret]: 403"
    assert redact(f"pip says: '{token}'") == "pip says: '[secret]'"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"npx server --token {LONG} --verbose", "npx server --token [secret] --verbose"),
        ("usage: run --api-key hunter22 x", "usage: run --api-key [secret] x"),
        ("run --api_key\thunter22", "run --api_key\t[secret]"),
        ("run -password hunter22;", "run -password [secret];"),
        ("run --db-password hunterhunter", "run --db-password [secret]"),
        ("run --password 'correct horse battery' x", "run --password '[secret]' x"),
        ('run --token "abc def ghi"', 'run --token "[secret]"'),
        (f"['run', '--token', '{LONG}', '-x']", "['run', '--token', '[secret]', '-x']"),
        (f'["--api-key","{LONG}"]', '["--api-key","[secret]"]'),
        (f'{{"args": "[\\"--token\\", \\"{LONG}\\"]"}}', '{"args": "[\\"--token\\", \\"[secret]\\"]"}'),
        (f"run --client-secret {LONG} --password {LONG}", "run --client-secret [secret] --password [secret]"),
        (f"Authorization: Token {LONG}", "Authorization: Token [secret]"),
        (f'{{"authorization": "Token {LONG}"}}', '{"authorization": "[secret]"}'),
        (f"Cookie: session={LONG}; theme=dark", "Cookie: [secret]"),
        (f"set-cookie: sid={LONG}; Path=/\nx: y", "set-cookie: [secret]\nx: y"),
        (f"{{'Cookie': 'sid={LONG}', 'a': 1}}", "{'Cookie': '[secret]', 'a': 1}"),
        (f"run --key {LONG} x", "run --key [secret] x"),
        (f"run --key={LONG};", "run --key=[secret];"),
        (f"run --deploy-key='{LONG}'", "run --deploy-key='[secret]'"),
        (f"['run', '--auth', '{LONG}', '-x']", "['run', '--auth', '[secret]', '-x']"),
        (f'{{"args": "[\\"--pat\\", \\"{LONG}\\"]"}}', '{"args": "[\\"--pat\\", \\"[secret]\\"]"}'),
        ("run --pat hunter22 --key hunter22", "run --pat [secret] --key hunter22"),
        ("run --pat=hunter22", "run --pat=[secret]"),
        ("run --key 0123456789abcdef0123456789abcdef", "run --key [secret]"),
        ("run --auth 550e8400-e29b-41d4-a716-446655440000", "run --auth [secret]"),
        ("run --token HUNTERHUNTER", "run --token [secret]"),
        ("run --password 'CORRECT_HORSE_1' x", "run --password '[secret]' x"),
        ("password='CORRECT_HORSE_BATTERY'", "password='[secret]'"),
        (f"POST https://hooks.slack.com/services/T00/B00/{LONG}", "POST https://hooks.slack.com/services/[secret]"),
    ],
)
def test_the_value_of_a_flag_or_header_is_removed_from_free_text(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize("scheme", ["ApiKey", "Negotiate", "Bot", "SSO-Key"])
def test_no_scheme_of_an_authorization_header_leaves_its_value(scheme: str) -> None:
    assert LONG not in redact(f"Authorization: {scheme} {LONG}")


@pytest.mark.parametrize(
    "text",
    [
        "the option --token is required",
        "--password requires a value",
        "usage: run [--token TOKEN] [--api-key <key>] [--password {a,b}]",
        "usage: run --token YOUR_GITHUB_TOKEN --password PASSWORD_OF_USER --api-key APIKEY --db-password VALUE",
        'token = "OPENAI_API_KEY" password: "DB_PASSWORD"',
        "--token-file /run/secrets/token --verbose",
        "--key id --key=name --sort-key created_at_2024_01_01 --auth=oauth2 --auth bearer",
        "--key /etc/ssl/private/server-0123456789.pem --key=C:\\keys\\server0123456789ABCDEF",
        "--key server0123456789ABCDEF.pem --auth https://as.example/authorize0123456789ABC",
        "npx -y --auth evil-package-0123456789 --key evil.package.0123456789 --auth @Scope/evil0123456789",
        "uvx --key Evil_Package_0123456789 --auth git+https://h.example/Evil0123456789ABCDEF",
        "grep --pat 'some*where' --pat pattern --pat [a-z]{6,}",
        "--max-tokens 4096 --api-key-env MY_KEY",
        "--token $TOKEN --password ${input:password}",
        "--password --verbose",
        "--password-stdin registry.example --token-endpoint https://as.example/token",
        "pypi-attestations and pypi-server are packages",
        "SG.short.short",
        "cookie: missing",
        "Authorization: Token is gone",
        "a cookie = a biscuit",
    ],
)
def test_text_about_flags_and_headers_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", ["input_tokens=1234", "the token is gone", "https://h/p?q=1", "a:b", "Basic idea"])
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


def test_registered_value_is_removed_everywhere_and_short_ones_are_not() -> None:
    register_secret("opensesame-1")
    register_secret("opensesame-1-longer")
    register_secret("abc")
    assert redact("opensesame-1-longer, xopensesame-1x, abc") == "[secret], x[secret]x, abc"


def test_a_registered_value_is_removed_as_it_is_written_in_json() -> None:
    secret = 'pass"word\\with\n2 lines'
    register_secret(secret)
    assert redact(json.dumps({"a": secret})) == '{"a": "[secret]"}'


def test_an_ordinary_word_registered_as_a_secret_stays_in_text() -> None:
    for word in ("a", "files", "filesystem", "read_text_file", "tools/list_changed"):
        register_server_secret(word)
    text = "files: filesystem read_text_file tools/list_changed"
    assert redact(text) == text


def test_a_token_of_a_server_is_removed_from_text_and_never_from_identifiers() -> None:
    register_server_secret(LONG)
    register_secret("postgres")
    register_secret(LONG[::-1])
    assert redact(f"x {LONG}") == "x [secret]"
    assert redact_command(f"{LONG} postgres {LONG[::-1]}") == f"{LONG} postgres [secret]"
    assert redact_command(f"run --api-key={LONG}") == "run --api-key=[secret]"
    name = f"{LONG} postgres {LONG[::-1]}"
    assert redact_identifier(name) == f"{LONG} postgres [secret]{identifier_digest(name)}"


@pytest.mark.parametrize(
    "name", ["sk-delete-everything-of-you-0001", "token:production-db", "AKIAABCDEFGHIJKLMNOP", "api_key=abcdefgh"]
)
def test_a_name_that_looks_like_a_secret_stays_readable(name: str) -> None:
    assert redact_identifier(name) == name


def make_token(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def test_only_the_newest_secrets_of_servers_are_kept() -> None:
    for number in range(300):
        register_server_secret(make_token(number))
    assert redact(f"{make_token(299)} {make_token(0)}") == f"[secret] {make_token(0)}"


def test_an_issuer_of_many_tokens_does_not_displace_those_of_others() -> None:
    register_server_secret(make_token(-1), "https://quiet.example")
    for number in range(300):
        register_server_secret(make_token(number), "https://busy.example")
    assert redact(f"{make_token(-1)} {make_token(299)}") == "[secret] [secret]"


@pytest.mark.parametrize(
    ("alphabet", "length"),
    [
        (string.ascii_letters + string.digits, 32),
        (string.ascii_letters + string.digits + "-_", 43),
        (string.ascii_letters + string.digits + "+/", 44),
        (string.ascii_letters + string.digits + "-._~+/", 64),
        (string.ascii_lowercase + string.digits, 40),
        (string.ascii_uppercase + "234567", 52),
        ("0123456789abcdef", 32),
        (string.ascii_letters, 64),
        (string.ascii_lowercase, 40),
        (string.digits, 40),
    ],
)
def test_nearly_all_random_tokens_are_removed_from_text(alphabet: str, length: int) -> None:
    generator = random.Random(length)
    tokens = ["".join(generator.choices(alphabet, k=length)) for _ in range(2_000)]
    assert sum(map(is_unpredictable, tokens)) >= 1_980


def test_a_mark_of_a_hidden_token_is_not_changed_by_another_token() -> None:
    digest = hashlib.sha256(LONG.encode()).hexdigest()[:16]
    register_server_secret(LONG, 'https://as.example"]/x')
    register_server_secret(digest, "https://as.example")
    mark = f"[secret from as.example??, {len(LONG)} characters, sha256 {digest}]"
    assert redact_with_issuers(f"x {LONG} y {LONG}") == f"x {mark} y {mark}"
    assert redact(f"x {LONG} {digest} y") == "x [secret] [secret] y"


def test_json_keeps_its_names_and_loses_its_secrets() -> None:
    register_server_secret('","question":"approve_tool-1')
    value = {"question": "approve_tool-1", "in": [{"api_key": "k" * 9, "n": 5}, f"Bearer {LONG}", None, True]}
    assert redact_values(value) == {
        "question": "approve_tool-1", "in": [{"api_key": "[secret]", "n": 5}, "Bearer [secret]", None, True],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ({"password": ["x"]}, {"password": ["[secret]"]}),
        ({"pin": 1234}, {"pin": "[secret]"}),
        ({"pin": "0420", "cvv": 123, "pass": "hunter"}, {"pin": "[secret]", "cvv": "[secret]", "pass": "[secret]"}),
        (
            {"credentials": {"user": "ada", "pass": "x", "ok": True, "none": None}},
            {"credentials": {"user": "[secret]", "pass": "[secret]", "ok": True, "none": None}},
        ),
        ({"dbPassword": {"value": 12345678}}, {"dbPassword": {"value": "[secret]"}}),
        ({"api_keys": ["one", ["two"], 3]}, {"api_keys": ["[secret]", ["[secret]"], "[secret]"]}),
        ([{"a": {"accessToken": 99}}], [{"a": {"accessToken": "[secret]"}}]),
        (
            {"new_password": 1234, "defaultPassword": ["x"]},
            {"new_password": "[secret]", "defaultPassword": ["[secret]"]},
        ),
        ({"passwords": [1234, 5678]}, {"passwords": ["[secret]", "[secret]"]}),
        ({"tokens": ["abcdef-ghijkl"]}, {"tokens": ["[secret]"]}),
        (
            {"tokens": {"access_token": "abcdef-ghijkl", "expires_in": 3600}},
            {"tokens": {"access_token": "[secret]", "expires_in": 3600}},
        ),
        ({"credentials": {"pin": 7, "expires_in": 3600}}, {"credentials": {"pin": "[secret]", "expires_in": 3600}}),
        (
            {"properties": {"password": {"type": "string", "default": "x"}}},
            {"properties": {"password": {"type": "string", "default": "[secret]"}}},
        ),
    ],
)
def test_every_value_under_the_name_of_a_secret_is_masked(value: Any, masked: Any) -> None:
    assert mask_members(value) == masked
    assert redact_values(value) == masked
    assert may_have_secret_members(json.dumps(value))


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 400, "maxTokens": 400, "token_count": 3, "tokens": 12, "keys": ["a", "b"], "totalTokens": 5},
        {"usage": {"tokens": {"input": 12, "output": 5}, "prompt_tokens": 7, "tokens_per_second": 1.5}},
        {"tokens": ["Hel", "lo"], "token_ids": [1, 2], "tokenizer": {"type": "BPE"}},
        {"key": 5, "key_order": ["a"], "cookies": 3, "author": {"name": "Ada"}, "auth": {"type": "oauth"}},
        {"progressToken": 7, "secret": True, "password": None, "passwords": 3, "secrets": {}, "credentials": []},
        {"pin": 13, "pass": 12, "fail": 3, "pwd": "/home/ada", "pinned": [1]},
        {"authorization_servers": ["https://login.example.com"], "token_endpoint": {"a": 1}},
        {"token_endpoint_auth_methods_supported": ["none"], "scopes": ["read"]},
        {"password": {"a": "${env:PASSWORD}"}, "secret_name": ["db"], "password_policy": {"min_length": 8}},
        {"inputSchema": {"type": "object", "properties": {"token": {"type": "string", "description": "A token"}}}},
        {"properties": {"password": {"minLength": 8, "format": "password"}, "token": {"not": {"type": "null"}}}},
        {"dependentRequired": {"password": ["user"]}, "required": ["password"]},
        {"dependentSchemas": {"password": {"required": ["user"], "properties": {"user": {"type": "string"}}}}},
    ],
)
def test_counts_schemas_and_names_stay_readable(value: Any) -> None:
    assert mask_members(value) == value
    assert redact_values(value) == value


PROGRAM = """
import sys, time
from mcphost.redact import redact, register_secret
for n in (40_000, 30_000):
    register_secret("a" * n + "b")
def cost(text):
    began = time.thread_time()
    redact(text)
    return time.thread_time() - began
piece = sys.argv[1]
for _ in range(3):  # what else the machine does may spoil a measurement
    short = min(cost(piece * (24_000 // len(piece))) for _ in range(3))
    growth = cost(piece * (960_000 // len(piece))) / short
    if growth < 100:
        break
print(growth)
"""


@pytest.mark.parametrize(
    "piece",
    [
        "a", "a-", "token", "eyJ", "eyJ-", "eyJaaaaaaaa.eyJaaaaaaaa-", "a://", "token=:", '":', "--token", "--token ",
        "--token '", "-token-", " -", "--a-token,", "SG.a", "SG.aaaaaaaaaaaaaaaa-", "pypi-", "cookie:a", "cookie:a=",
        "authorization:token ", "1:AA", "123456789:AA", "hooks.slack.com/services/",
    ],
)  # fmt: skip
def test_forty_times_the_text_takes_at_most_a_hundred_times_as_long(piece: str) -> None:
    limit = (60, 60)
    child = subprocess.run(
        [sys.executable, "-c", PROGRAM, piece],
        capture_output=True, text=True, check=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit),
    )  # fmt: skip
    assert child.returncode == 0, "it was ended after a minute"
    assert float(child.stdout) < 100


def test_text_over_a_million_characters_is_cut() -> None:
    assert len(redact("x" * 2_000_000)) == 1_000_001


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("Authorization", f"Bearer {LONG}", True),
        ("GITHUB_TOKEN", "shorttoken", True),
        ("X-Api-Key", "123456", True),
        ("GITHUB_TOKEN", "${env:T}", False),
        ("PATH", "/usr/bin", False),
        ("USE_TOKEN", "true", False),
        ("ANYTHING", f"sk-{LONG}", True),
        ("MONKEY", "banana", False),
        ("DEPLOY_KEY", "abcdef", True),
    ],
)
def test_literals_that_look_secret_are_noticed(name: str, value: str, secret: bool) -> None:
    assert is_probable_secret(name, value) is secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{'api_key': 'hunter2xx', 'user': 'ada'}", "{'api_key': '[secret]', 'user': 'ada'}"),
        ("password='correct horse' user='ada'", "password='[secret]' user='ada'"),
        ('export TOKEN="abcdef1" MODE="fast"', 'export TOKEN="[secret]" MODE="fast"'),
        (
            '{"body": "{\\"token\\": \\"abcdef1\\", \\"a\\": 1}"}',
            '{"body": "{\\"token\\": \\"[secret]\\", \\"a\\": 1}"}',
        ),
        ("secret: 'it\\'s hidden' and more", "secret: '[secret]' and more"),
        ("password='never closed\nnext line", "password='[secret]\nnext line"),
        ("AccountKey=abc123abc123==;Endpoint=x", "AccountKey=[secret];Endpoint=x"),
        ('api_key_env = "OPENAI_API_KEY"', 'api_key_env = "OPENAI_API_KEY"'),
        ("max_tokens: '4096'", "max_tokens: '4096'"),
        ("token: '${env:TOKEN}'", "token: '${env:TOKEN}'"),
    ],
)
def test_a_quoted_value_of_a_secret_is_removed_whatever_the_quotes(text: str, shown: str) -> None:
    assert redact_patterns(text) == shown


@pytest.mark.parametrize(
    "value",
    [
        {"pass": "true", "otp": "disabled", "totp": "none"},
        {"_meta": {"progressToken": "7f3a9c1e-indexing"}},
        {"design_tokens": ["primary-color", "spacing-large"], "designTokens": {"color": "crimson", "space": 16}},
    ],
)
def test_what_only_has_a_name_like_a_secret_is_kept(value: dict[str, Any]) -> None:
    assert redact_values(value) == value
    assert redact(json.dumps(value)) == json.dumps(value)


@pytest.mark.parametrize(
    "name", ["token", "accessToken", "token_progress", "progress_api_token", "design_token_secret"]
)
def test_a_token_beside_such_a_name_is_still_removed(name: str) -> None:
    assert "abcdef0123456789" not in redact(json.dumps({name: "abcdef0123456789"}))
    assert redact_values({name: "abcdef0123456789"}) == {name: "[secret]"}


def test_a_list_of_passwords_is_removed_whatever_they_are_for() -> None:
    assert redact_values({"design_passwords": ["hunter2x"]}) == {"design_passwords": ["[secret]"]}
