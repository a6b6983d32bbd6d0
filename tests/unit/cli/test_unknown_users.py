"""Tests of paths in the home folder of a user who does not exist: they are names of files, not the end of mcphost."""

import json
import os
from pathlib import Path

import pytest

from mcphost.cli.main import main
from mcphost.errors import StartupError
from mcphost.transport.process import find_command

PATH = "~no-such-user/x"


@pytest.mark.parametrize(
    "words",
    [
        ("messages", PATH),
        ("servers", "--mcp-config", PATH),
        ("tools", "--mcp-config", PATH),
        ("servers", "import", PATH),
        ("servers", "lock", "--mcp-config", PATH),
    ],
)
def test_a_named_file_of_an_unknown_user_is_reported_as_missing(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(words)) in (2, 3)
    said = capsys.readouterr().err
    assert PATH in said
    assert "crashed" not in said


def test_a_server_whose_program_belongs_to_an_unknown_user_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StartupError, match="relative"):
        find_command(PATH, os.environ, str(tmp_path))
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"x": {"command": PATH}}}), encoding="utf-8")
    assert main(["doctor", "x", "--mcp-config", str(file)]) == 4
    assert "is relative" in capsys.readouterr().out
