"""What looks like a secret is hidden where a server's entry is shown; everything else can be read."""

import pytest

from mcphost.config.masking import fingerprint, masked


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("API_TOKEN", "hunter2", "[hidden]"),
        ("PASSWORD", "abc", "[hidden]"),
        ("Authorization", "Bearer abcdefgh", "Bearer [hidden]"),
        ("Authorization", "Bearer ${keyring:work}", "Bearer ${keyring:work}"),
        ("API_KEY", "prefix-${env:KEY}-suffix", "[hidden]${env:KEY}[hidden]"),
        ("SETTING", "sk-abcdefghijklmnopqrstuvwx", "[hidden]"),
        ("SETTING", "sk-abcdefghijklmnopqrstuvwx ${env:A}", "[hidden] ${env:A}"),
        ("SETTING", "q9ZrT4kLm2XvB7nPw3HsYd8F", "[hidden]"),
        ("SETTING", "0123456789abcdef0123456789abcdef", "[hidden]"),
        ("DATABASE", "postgres://me:hunter2@db.example/main", "postgres://[hidden]@db.example/main"),
        ("SIGNING_KEY", "/k9ZrT4kLm2XvB7nPw3HsYd8F+aa==", "[hidden]"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(name: str, value: str, shown: str) -> None:
    assert masked(name, value) == shown


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
    assert masked(name, value) == value


def test_a_fingerprint_stands_for_a_name_and_a_value() -> None:
    marks = {fingerprint(name, value) for name in ("A", "B") for value in ("one", "two", "\ud800")}
    assert len(marks) == 6
    assert fingerprint("A", "one") == fingerprint("A", "one")


def test_many_hidden_values_share_the_work_of_one() -> None:
    assert fingerprint("A", "one", 100_000) != fingerprint("A", "one")
    assert len(fingerprint("A", "one", 100_000)) == 64
