"""Tests for `mcphost run` with a hostile server and model: output and stored data contain only visible marks."""

from pathlib import Path

import pytest

from tests.terminal.hostile_text import HOSTILE_TEXT, find_effects, model_server, run_on_terminal, write_config

pytestmark = [pytest.mark.req("sec.terminal-escape"), pytest.mark.timeout(240)]


def test_stored_data_about_it_is_harmless_too(tmp_path: Path) -> None:
    config = str(write_config(tmp_path))
    with model_server() as base:
        asking = ("--mcp-config", config, "--model", "openai/m", "--api-base", base)
        ran = run_on_terminal(tmp_path, "run", *asking, "--allow", "evil/*", f"please {HOSTILE_TEXT}".replace("\0", ""))
        failed = run_on_terminal(tmp_path, "run", *asking, "break")
    assert "(answer)" in ran.decode()
    assert "(model-error)" in failed.decode()
    listed = run_on_terminal(tmp_path, "sessions")
    assert "please" in listed.decode()
    ident = next(word for word in listed.decode().split() if len(word) == 12 and set(word) <= set("0123456789abcdef"))
    shown = run_on_terminal(tmp_path, "sessions", "show", ident)
    for written in (ran, failed, listed, shown):
        assert find_effects(written) == []
