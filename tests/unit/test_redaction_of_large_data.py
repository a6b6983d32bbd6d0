"""Tests that redaction tries few patterns on data without secrets, and each pattern where it may match."""

import json
import random
import time
from typing import Any

import pytest

from mcphost import redact
from mcphost.message_log import redact_json

_PIECES = (
    "token", "secret", "passwd", "password", "pass_phrase", "pass-phrase", "passphrase", "api_key", "apikey", "API-KEY",
    "Authorization", "credential", "privateKey", "access-key", "accountkey", "key", "pat", "auth", "Set-Cookie",
    "bearer", "Basic", "dpop", "ſecret", "to\N{KELVIN SIGN}en", "api\N{KELVIN SIGN}ey", "credentıal", "İ",
    "private_key",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "://", "http://", "a@", "@", "=", ":", ";", "&", "?",
    "#", ",", '"', "'", "\\", '\\"', "\n", "\t", "-", "--", "_", ".", "/", "[secret]", "${X}", "$", " ", "  ", "sk-",
    "ghp_", "github_pat_", "glpat-", "xoxb-", "xapp-", "AIza", "ya29.", "AKIA", "hf_", "sk_live_", "npm_", "tvly-",
    "sbp_", "gsk_", "xai-", "pplx-", "figd_", "ntn_", "lin_api_", "pypi-AgE", "SG.", "hvs.", "dop_v1_", "shpat_",
    "dckr_pat_", "ATATT3", "AGE-SECRET-KEY-1", "123456789:AA", "bot123456789:AA", "eyJ", "eyJhbGciOiJ", "code",
    "state", "sig", "assertion", "hooks.slack.com/services/", "progressToken", "file", "TOKEN_FILE", "required",
    "1234", "a1B2c3D4e5F6g7", "abcdefghijklmnop", "abcdefghijklmnopqrstuvwxyz0123456789", "x", "é", "negotiate",
)  # fmt: skip


def _try_everywhere(text: str) -> str:
    """Return *text* redacted by every pattern, each tried at every character."""
    for pattern in redact._SECRET_PATTERNS:  # pyright: ignore[reportPrivateUsage]
        text = pattern.regex.sub(pattern.mark, text)
    flag, replace_flag = redact._AMBIGUOUS_FLAG, redact._redact_ambiguous_flag  # pyright: ignore[reportPrivateUsage]
    token, replace_token = redact._JWT, redact._redact_jwt  # pyright: ignore[reportPrivateUsage]
    return token.sub(replace_token, flag.sub(replace_flag, text))


@pytest.mark.parametrize("pieces", [2, 4, 6, 12, 60, 250])
def test_patterns_remove_what_they_would_remove_if_they_were_tried_everywhere(pieces: int) -> None:
    rng = random.Random(pieces)
    changed = 0
    for _number in range(4_000 // pieces):
        text = "".join(rng.choices(_PIECES, k=pieces))
        shown = redact.redact_patterns(text)
        assert shown == _try_everywhere(text), text
        changed += shown != text
    assert changed


@pytest.mark.parametrize(
    "value",
    [
        ["a"] * 50_000, [""] * 50_000, ["abcdefghi"] * 20_000, [{"a": "b"}] * 20_000,
        " ".join(["simple words of a text"] * 10_000),
    ],
    ids=["letters", "empty texts", "words", "objects", "text"],
)  # fmt: skip
def test_few_patterns_are_tried_on_data_without_words_of_secrets(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def replace(_pattern: object, text: str, _folded: str) -> str:
        tried.append(text)
        return text

    monkeypatch.setattr(redact._SecretPattern, "replace", replace)  # pyright: ignore[reportPrivateUsage]
    assert json.loads(redact_json(value)) == value
    assert len(tried) <= 3  # quotes and colons of JSON could belong to a member with a secret
    redact_json(["token=abcdefghi bearer cookie= authorization: credential"])
    assert len(tried) > 3


def test_a_value_that_occurs_often_does_not_slow_the_search_for_the_others() -> None:
    values = [f"{number:04}-value-of-a-server" for number in range(200)]
    for value in values:
        redact.register_server_secret(value)

    def cost(text: str) -> float:
        began = time.thread_time()
        redact.redact_registered(text)
        return time.thread_time() - began

    often = f"{values[0]} " * 20_000 + " ".join(values)
    once = "some-words-without-value " * 19_200 + " ".join(values)
    # What else the machine does may spoil a measurement.
    assert any(cost(often) < 8 * cost(once) for _ in range(3))
