"""Tests that the built wheel is complete, installs without development packages, and runs a turn with a tool call.

They find faults that the development environment hides: some releases of litellm need the `mcp` SDK for every call with
tools, and the development environment contains that SDK for other tests.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source_tree import ROOT
from tests.conftest import skip_or_fail
from tests.packaging.openai_stub import run_openai_stub

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("wheel")]

OFFLINE = ("Failed to fetch", "error sending request", "dns error")


def uv(*arguments: str) -> None:
    try:
        done = subprocess.run(["uv", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=200)
    except FileNotFoundError:
        skip_or_fail("uv is not on the PATH")
    if done.returncode and any(sign in done.stderr for sign in OFFLINE):
        skip_or_fail(f"no package index: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--wheel", "--out-dir", str(folder))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel_programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs in a virtual environment with only the wheel and its dependencies."""
    environment = tmp_path_factory.mktemp("bare") / "venv"
    uv("venv", "--python", sys.executable, str(environment))
    uv("pip", "install", "--python", str(environment / "bin" / "python"), str(wheel))
    _copy_bytecode(environment)
    return environment / "bin"


def _copy_bytecode(environment: Path) -> None:
    """Copy bytecode from the development environment to save time; Python ignores it if the source differs."""
    here = Path(sysconfig.get_path("purelib"))
    (there,) = environment.glob("lib/python*/site-packages")
    for compiled in here.rglob("__pycache__"):
        target = there / compiled.relative_to(here)
        if target.parent.is_dir() and not target.exists():
            shutil.copytree(compiled, target)


def run_program(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    homes = {f"MCPHOST_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    foreign = ("PYTHON", "VIRTUAL_ENV", "UV_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    environment = {**inherited, **homes, "OPENAI_API_KEY": "sk-none"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_the_wheel_has_the_themes_the_type_marker_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    themes = {path.name for path in (ROOT / "themes").glob("*.toml")}
    assert len(themes) >= 2
    assert {f"mcphost/themes/{name}" for name in themes} <= names
    assert "mcphost/py.typed" in names
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"mcphost"}


def test_it_installs_without_the_packages_of_the_tests(wheel_programs: Path, tmp_path: Path) -> None:
    probe = "import importlib.util as u; print([name for name in ('mcp', 'pytest', 'hypothesis') if u.find_spec(name)])"
    assert run_program([str(wheel_programs / "python"), "-c", probe], tmp_path).stdout.strip() == "[]"
    assert run_program([str(wheel_programs / "mcphost"), "--version"], tmp_path).stdout.startswith("mcphost ")


def test_a_tool_calling_turn_works_there(wheel_programs: Path, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    server = {"command": str(wheel_programs / "python"), "args": ["-m", "mcphost.demo.server"]}
    config.write_text(json.dumps({"mcpServers": {"demo": server}}))
    with run_openai_stub("add", {"a": 2, "b": 40}) as stub:
        done = run_program(
            [
                str(wheel_programs / "mcphost"),
                "run",
                "add them",
                "--model",
                "openai/x",
                "--api-base",
                stub.api_base,
                "--mcp-config",
                str(config),
                "--allow",
                "demo",
            ],
            tmp_path,
        )
    assert done.returncode == 0, done.stderr
    assert "The tool said: " in done.stdout
    assert "42" in done.stdout
    assert [message["role"] for message in stub.requests[1]["messages"]][-3:] == ["user", "assistant", "tool"]
