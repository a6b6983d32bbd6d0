"""Tests that commands such as `npx`, which download a program before running it, are recognized by name."""

import pytest

from mcphost.config.server_restrictions import is_installer


@pytest.mark.parametrize(
    "command",
    [
        "npx -y server",
        "/usr/local/bin/npx server",
        "npx.cmd server",
        "uvx server",
        "bunx server",
        "pnpm dlx server",
        "npm exec server",
        "pipx run server",
        "uv tool run server",
        "uv --quiet run server.py",
        "docker run -i image",
        "docker --context far run -i image",
        "podman run image",
    ],
)
def test_an_installer_is_known(command: str) -> None:
    assert is_installer(command.split())


@pytest.mark.parametrize(
    "command", ["", "node server.js", "python -m npx", "docker start run-me", "pipx list", "./run", "uv pip list"]
)
def test_another_command_is_none(command: str) -> None:
    assert not is_installer(command.split())
