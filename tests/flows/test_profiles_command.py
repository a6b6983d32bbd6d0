"""Tests for `mcphost profiles`: the profiles of config.toml with their models, parameters and servers."""

import json

import pytest

from tests.flows.program import CANARY, Program

SETTINGS = f"""
[profiles.review]
description = "Careful reviews"
model = {{name = "anthropic/claude-opus-4-5", temperature = 0, headers = {{"x-key" = "{CANARY}"}}}}
system_prompt = "You review code. Be strict."
servers = ["git", "files"]

[profiles.local]
model = "ollama/qwen3:8b"

[profiles.offline]
servers = []
"""


@pytest.fixture(autouse=True)
def _settings(program: Program) -> None:
    (program.home / "config").mkdir()
    (program.home / "config" / "config.toml").write_text(SETTINGS)


def test_profiles_are_listed_with_their_models_parameters_and_servers(program: Program) -> None:
    done = program.run("--profile", "local", "profiles")
    assert done.returncode == 0
    lines = [" ".join(line.split()) for line in done.stdout.decode().splitlines()]
    assert lines == [
        "review anthropic/claude-opus-4-5 temperature = 0.0 git, files Careful reviews",
        "local ollama/qwen3:8b",
        "offline none",
    ]
    assert "Selected: local" in done.stderr.decode()


def test_one_profile_is_shown_with_all_its_settings(program: Program) -> None:
    assert program.text("profiles", "review").splitlines() == [
        "review",
        "  Description: Careful reviews",
        "  Model: anthropic/claude-opus-4-5",
        "  Parameters: temperature = 0.0",
        "  Servers: git, files",
        "  System prompt: You review code. Be strict.",
    ]
    assert "has no profile 'none'" in program.error("profiles", "none", code=2)


def test_profiles_are_json_for_scripts_without_the_headers_of_their_models(program: Program) -> None:
    text = program.text("profiles", "--json")
    assert CANARY not in text
    document = json.loads(text)
    assert document["selected"] == ""
    review, local, offline = document["profiles"]
    assert review["model"] == {
        "name": "anthropic/claude-opus-4-5", "reasoning_effort": None, "temperature": 0.0, "top_p": None,
        "max_output_tokens": None, "context_window": None,
    }  # fmt: skip
    assert (local["model"]["name"], local["servers"], local["system_prompt"]) == ("ollama/qwen3:8b", None, None)
    assert (offline["model"], offline["servers"]) == (None, [])
    assert json.loads(program.text("profiles", "review", "--json")) == review


def test_without_profiles_the_way_to_one_is_told(program: Program) -> None:
    (program.home / "config" / "config.toml").unlink()
    done = program.run("profiles")
    assert (done.returncode, done.stdout) == (0, b"")
    assert "[profiles.NAME]" in done.stderr.decode()


def test_an_unknown_setting_of_a_profile_is_reported(program: Program) -> None:
    settings = '[profiles.review]\nmodel = "ollama/qwen3:8b"\nwarmth = 1\n'
    (program.home / "config" / "config.toml").write_text(settings)
    done = program.run("profiles", "review")
    assert done.returncode == 0
    assert '"profiles.review.warmth" is unknown' in done.stderr.decode()
