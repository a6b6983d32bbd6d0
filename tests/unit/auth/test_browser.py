"""Tests that a browser is started without a shell, and only for allowed URLs."""

import json
import os
import sys
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

from mcphost.auth.browser import browser_commands, can_open_browser, open_url
from tests.event_loop import run_in_new_thread

NASTY = "https://as.example/a?x=$(touch%20owned);touch$IFS'owned'&y=*"


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a fake browser that writes its arguments to a file, and return the path of that file."""
    program = tmp_path / "browser"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nnew, told = {str(tmp_path / 'new')!r}, {str(tmp_path / 'told')!r}\n"
        "with open(new, 'w') as file:\n    json.dump(sys.argv[1:], file)\nos.rename(new, told)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(program))
    return tmp_path / "told"


def wait_for_arguments(told: Path) -> list[str]:
    """Wait until the fake browser has written its arguments to the file *told*, and return them."""
    deadline = time.monotonic() + 30
    while not told.exists():
        assert time.monotonic() < deadline, "the browser did not start"
        os.sched_yield()
    return json.loads(told.read_text())


@pytest.mark.req("auth.url-open-no-shell")
@pytest.mark.req("elic.url.secure-open")
def test_the_url_is_one_argument_and_no_shell_reads_it(browser: Path) -> None:
    assert run_in_new_thread(open_url, NASTY)
    (address,) = wait_for_arguments(browser)
    assert unquote(address) == unquote(NASTY)


# wslview writes the URL into a command line of PowerShell or cmd.
@pytest.mark.req("auth.url-open-no-shell")
@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("https://a.example/$(calc.exe)?b=$x;'!", "https://a.example/%24%28calc.exe%29?b=%24x%3B%27%21"),
        ("https://a.example/%USERNAME%/100%", "https://a.example/%25USERNAME%25/100%25"),
        ("https://a.example/%24%2F?c=%E9", "https://a.example/%24%2F?c=%E9"),
    ],
)
def test_signs_that_a_shell_of_windows_reads_are_given_as_codes(browser: Path, url: str, given: str) -> None:
    assert run_in_new_thread(open_url, url)
    assert wait_for_arguments(browser) == [given]


@pytest.mark.parametrize(
    "url", ["https://a.example/#/in?x=1", "https://me@a.example/", "http://127.0.0.1:8/", "https://a/" + "x" * 9_000]
)
def test_an_accepted_url_is_opened_unchanged(browser: Path, url: str) -> None:
    assert run_in_new_thread(open_url, url)
    assert wait_for_arguments(browser) == [url]


@pytest.mark.req("auth.url-scheme")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "javascript://a.example/%0aalert(1)",
        "file:///etc/passwd",
        "file://a.example/x",
        "data:text/html,x",
        "vbscript://a.example/x",
        "ftp://a.example/x",
        "ms-settings://a.example/x",
        "-version",
        "http://as.example/",
        "calc.exe",
        "",
    ],
)
def test_a_url_that_is_not_https_starts_nothing(browser: Path, url: str) -> None:
    assert not run_in_new_thread(open_url, url)
    assert not browser.exists()


def test_a_failing_browser_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROWSER", "false:/nowhere/browser")
    assert not run_in_new_thread(open_url, "https://as.example/")


@pytest.mark.req("auth.callback.manual")
def test_a_machine_without_a_screen_has_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    assert browser_commands({}, "linux", ()) == ()
    assert browser_commands({}, "darwin", ()) == (("open",),)
    assert browser_commands({"DISPLAY": ":0"}, "linux", ())[0] == ("xdg-open",)
    assert browser_commands({"BROWSER": "firefox --new-tab %s"}, "linux", ()) == (("firefox", "--new-tab", "%s"),)
    assert browser_commands({"BROWSER": "firefox '%s"}, "linux", ()) == ()  # an open quote names no program
    assert browser_commands({"BROWSER": "firefox '%s:links"}, "linux", ()) == (("links",),)
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not can_open_browser()


@pytest.mark.req("auth.callback.manual")
@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize(
    "where", [{"SSH_CONNECTION": "192.0.2.1 50000 192.0.2.2 22"}, {"SSH_TTY": "/dev/pts/1"}, {"container": "podman"}]
)
def test_over_ssh_and_in_a_container_a_screen_is_not_the_users_unless_they_name_a_browser(
    platform: str, where: dict[str, str]
) -> None:
    screen = {"DISPLAY": ":0", "WAYLAND_DISPLAY": "wayland-0"}
    assert browser_commands(screen | where, platform, ()) == ()
    assert browser_commands(screen | where | {"BROWSER": "firefox"}, platform, ()) == (("firefox",),)


def test_the_file_that_marks_a_container_implies_one(tmp_path: Path) -> None:
    mark, screen = tmp_path / ".dockerenv", {"DISPLAY": ":0"}
    assert browser_commands(screen, "linux", (str(mark),)) != ()
    mark.touch()
    assert browser_commands(screen, "linux", (str(mark),)) == ()
    assert browser_commands(screen | {"BROWSER": "firefox"}, "linux", (str(mark),)) == (("firefox",),)
