"""Tests for the fields of the form for a new server: variables, headers and folder, by keyboard, as `servers add`."""

from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.widgets import TextArea

from mcphost.config.typed_pairs import PairSeparator
from mcphost.config.typed_servers import TypedSettings, read_settings
from mcphost.errors import UsageError
from mcphost.tui.widgets.pair_lines import PairTextArea
from tests.flows.program import Program
from tests.screens.conftest import AppDriver
from tests.screens.real_program import Files

pytestmark = pytest.mark.anyio
SECRET = "quiet-0123-river"
IN_FILE = '[secrets]\nstore = "file"\n'


async def open_form(driver: AppDriver) -> None:
    """Open the form for a new server from the list of servers."""
    await driver.pilot.press("f3")
    await driver.until(lambda: "n add" in driver.text(), "the page")
    await driver.pilot.press("n")
    await driver.until(lambda: "Add a server" in driver.text(), "the form")


def add(tmp_path: Path, *arguments: str) -> dict[str, object]:
    """Run `mcphost servers add` in a set-up of its own, and return the entries that it writes."""
    home = tmp_path / "command"
    home.mkdir()
    program = Program(home)
    (home / "config").mkdir()
    (home / "config" / "config.toml").write_text(IN_FILE)
    program.text("servers", "add", *arguments)
    return Files(home / "config").read_servers()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_form_writes_what_the_command_writes_for_a_program(
    files: Files, tmp_path: Path, size: tuple[int, int]
) -> None:
    (tmp_path / "place").mkdir()
    files.write_servers()
    files.write_settings(IN_FILE)
    async with files.open(size, approved=False) as driver:
        await open_form(driver)
        await driver.type("mine -- program --flag")
        await driver.pilot.press("tab")
        await driver.type("LEVEL=a = b")
        await driver.pilot.press("enter")
        await driver.type(f"API_TOKEN={SECRET}")
        await driver.until(lambda: f"API_TOKEN={'•' * len(SECRET)}" in driver.text(), "the masked secret")
        assert "LEVEL=a = b" in driver.text()
        assert "quiet" not in driver.text()
        await driver.pilot.press("tab", "tab")
        await driver.type(str(tmp_path / "place"))
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "mine" in files.read_servers(), "the entry")
        written = files.read_servers()
    assert SECRET not in str(written)
    command = ("mine", "--env", "LEVEL=a = b", "--env", f"API_TOKEN={SECRET}", "--cwd", str(tmp_path / "place"))
    assert written == add(tmp_path, *command, "--", "program", "--flag")


async def test_the_form_writes_what_the_command_writes_for_an_address(files: Files, tmp_path: Path) -> None:
    files.write_servers()
    files.write_settings(IN_FILE)
    async with files.open((80, 24), approved=False) as driver:
        await open_form(driver)
        await driver.type("http://127.0.0.1:9/mcp")
        await driver.pilot.press("tab", "tab")
        await driver.type(f"Authorization: Bearer {SECRET}")
        await driver.pilot.press("enter")
        await driver.type("X-Region:us")
        await driver.until(lambda: "X-Region:us" in driver.text(), "the headers")
        assert "Bearer" not in driver.text()
        await driver.pilot.press("shift+tab", "shift+tab", "shift+tab")
        await driver.type("far")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "far" in files.read_servers(), "the entry")
        written = files.read_servers()
    headers = ("--header", f"Authorization: Bearer {SECRET}", "--header", "X-Region:us")
    assert written == add(tmp_path, "far", *headers, "http://127.0.0.1:9/mcp")
    assert "${" in written["far"]["headers"]["Authorization"]


async def test_every_field_is_reached_by_tab_and_a_wrong_line_is_named(files: Files) -> None:
    files.write_servers()
    async with files.open((80, 24), approved=False) as driver:
        await open_form(driver)
        await driver.type("program")
        reached: list[str] = []
        for _ in range(5):
            await driver.pilot.press("tab")
            reached.append(str(getattr(driver.app.screen.focused, "id", "")))
        assert reached == ["env", "headers", "folder", "leave", "save"]
        await driver.pilot.press("shift+tab", "shift+tab", "shift+tab", "shift+tab")
        await driver.type("LEVEL")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "Line 1 has no value. Write NAME=VALUE." in driver.text(), "the fault")
        assert files.read_servers() == {}
        for label in ("environment", "headers", "folder", "Save and start", "esc back"):
            assert label in driver.text()


def test_settings_that_do_not_suit_the_server_are_refused() -> None:
    with pytest.raises(UsageError, match="Headers can only be set for a server with a URL"):
        TypedSettings(headers={"A": "b"}).apply({"command": "x"})
    with pytest.raises(UsageError, match="Environment variables can only be set for a server with a command"):
        TypedSettings(env={"A": "b"}).apply({"url": "https://x.example"})
    with pytest.raises(UsageError, match="A folder can only be set for a server with a command"):
        TypedSettings(cwd="/").apply({"url": "https://x.example"})
    with pytest.raises(UsageError, match="Line 1 has no name"):
        read_settings("=b", "", "")


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("none", "file"):
        with pytest.raises(UsageError, match=f"The folder {tmp_path}/{name} does not exist"):
            read_settings("", "", f" {tmp_path}/{name} ")
    assert read_settings("", "", f" {tmp_path} ").cwd == str(tmp_path)


def test_lines_without_text_are_passed_over_and_values_are_trimmed() -> None:
    settings = read_settings("\nA = b=c \n\nB=\n", " X :  y \n", "")
    assert settings == TypedSettings(env={"A": "b=c", "B": ""}, headers={"X": "y"})


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("'x y'", "x y"),
        ('"x y"', "x y"),
        ('" x "', " x "),
        (r'"a\nb"', "a\nb"),
        (r"'a\nb'", r"a\nb"),
        ("'x", "'x"),
        ("'", "'"),
        ('"it\'s"', "it's"),
        ("a#b", "a#b"),
        ("''", ""),
    ],
)
def test_a_pair_of_quotes_around_the_value_of_a_variable_is_removed(typed: str, value: str) -> None:
    assert read_settings(f"A= {typed} ", "", "").env == {"A": value}
    assert read_settings("", f"A: {typed}", "").headers == {"A": typed}


@pytest.mark.parametrize(
    ("env", "headers", "expected"),
    [
        ("A=1\n\nA=2", "", "Line 3 has the same name as line 1. Delete one of them."),
        ("A=1\nexport A=2", "", "Line 2 has the same name as line 1. Delete one of them."),
        ("", "X-Region: us\nx-region: eu", "Line 2 has the same name as line 1. Delete one of them."),
        ("", "X-Region: us\nX-Empty: ", "Line 2 has no value. Write NAME: VALUE."),
        ("A=1\nsk-0123456789abcdef0123", "", "Line 2 has no value. Write NAME=VALUE."),
        ("", "sk-0123456789abcdef0123", "Line 1 has no value. Write NAME: VALUE."),
    ],
)
def test_a_line_that_cannot_be_saved_is_named_by_its_number(env: str, headers: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings(env, headers, "")
    assert f"{caught.value.message} {caught.value.hint}" == expected


def test_names_of_variables_differ_by_case() -> None:
    assert read_settings("a=1\nA=2", "", "").env == {"a": "1", "A": "2"}


async def test_the_value_of_an_exported_variable_is_hidden_and_stored_outside_of_the_file(files: Files) -> None:
    files.write_servers()
    files.write_settings(IN_FILE)
    async with files.open((80, 24), approved=False) as driver:
        await open_form(driver)
        await driver.type("mine -- program")
        await driver.pilot.press("tab")
        await driver.type(f"export  API_KEY={SECRET}")
        await driver.until(lambda: f"export  API_KEY={'•' * len(SECRET)}" in driver.text(), "the masked secret")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "mine" in files.read_servers(), "the entry")
        written = files.read_servers()["mine"]["env"]
    assert written.keys() == {"API_KEY"}
    assert "${" in written["API_KEY"]


@pytest.mark.parametrize("name", ["set API_KEY", "$env:API_KEY", "API KEY", "A,B", "Ä"])
def test_a_variable_with_an_unusual_name_is_refused_without_its_value(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_settings(f"A=1\n\n{name}={SECRET}", "", "")
    assert caught.value.message == "The name in line 3 has a space or an unusual character."
    assert caught.value.hint == "Write NAME=VALUE."


@pytest.mark.parametrize("name", ["export X-Key", "X Key", "X(Key)", "Ä"])
def test_a_header_with_an_unusual_name_is_refused_without_its_value(name: str) -> None:
    with pytest.raises(UsageError, match="The name in line 1 has a space or an unusual character"):
        read_settings("", f"{name}: {SECRET}", "")


@pytest.mark.parametrize("name", ["export API_KEY", "export\tAPI_KEY ", "set API_KEY", "$env:API_KEY"])
async def test_a_secret_is_hidden_whatever_stands_before_its_name(name: str) -> None:
    assert await show_line(f"{name}={SECRET}") == f"{name}={'•' * len(SECRET)}"


async def show_line(text: str, separator: PairSeparator = "=") -> str:
    """Return a line of environment variables or headers as the form shows it."""

    class LineApp(App[None]):
        def compose(self) -> ComposeResult:
            yield PairTextArea(separator, "env", "")

    app = LineApp()
    async with app.run_test():
        area = app.query_one(PairTextArea)
        area.text = text
        return area.get_line(0).plain


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("API_KEY=${env:X} sk-1", "API_KEY=•••••••• ••••"),
        ("API_KEY=${X:-quiet}", "API_KEY=" + "•" * 11),
        ("API_KEY=${env:X", "API_KEY=•••••••"),
        ("API_KEY=${env:X}${keyring:Y}", "API_KEY=${env:X}${keyring:Y}"),
        ("AUTH=Bearer ${env:X}", "AUTH=Bearer ${env:X}"),
        ("PLACE=${env:X}/folder", "PLACE=${env:X}/folder"),
        ("API_KEY=a日本", "API_KEY=•・・"),
    ],
)
async def test_a_secret_is_hidden_unless_it_is_only_a_reference(line: str, shown: str) -> None:
    assert await show_line(line) == shown
    assert cell_len(shown) == cell_len(line)


@pytest.mark.parametrize("key", [
    "sk-a", "sk-ant-api03-abcdef", "ghp_0123456789abcdefghij", "0123456789abcdef0123456789abcdef",
    "123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "d29ya3Mgd2VsbCBoZXJlIDE=", "a/b+c0123456789abcdefghij==",
    "RCCCPP3m8cJrMPkOx90B5Ih1NKIPCw0Ew27YDnHg_Xc=", "sHZw-5QL1TNflz2q2GG_kQ==", "123456789:AAHdqT", "12345678:qT4",
    "4f6e3c1a-98d2-4b7e-a1c5-0f9b8d7e6c5a", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefgh12",
])  # fmt: skip
@pytest.mark.parametrize("separator", ["=", ":"])
@pytest.mark.parametrize("lead", ["", "export ", "  "])
async def test_a_key_without_a_name_is_hidden(key: str, separator: PairSeparator, lead: str) -> None:
    assert await show_line(lead + key, separator) == "".join(" " if one == " " else "•" for one in lead + key)


@pytest.mark.parametrize("line", ["Bearer quiet0123", "Basic cXVpZXQ6cml2ZXI", "DPoP quiet-river"])
async def test_a_scheme_and_a_token_without_a_name_are_hidden(line: str) -> None:
    assert "quiet" not in await show_line(line, ":")


@pytest.mark.parametrize(("line", "separator"), [
    ("DATABASE_URL_2_OF_THE_TEAM", "="), ("export AWS_S3_BUCKET_2024", "="), ("LEVEL=debug-0123456789-abcdef", "="),
    ("X-Amzn-Trace-Id-Of-2024: 1", ":"), ("Content-Type: text/plain", ":"), ("${env:MY_2_LONG_NAMES_IN_A_ROW}", "="),
    ("AUTHORIZATION_HEADER_V2=", "="), ("s", "="), ("sk", "="),
])  # fmt: skip
async def test_names_and_ordinary_values_are_shown(line: str, separator: PairSeparator) -> None:
    assert await show_line(line, separator) == line


@pytest.mark.parametrize(
    "text",
    [
        f'{{"command": "run", "env": {{"API_TOKEN":"{SECRET}", "LEVEL": "plain"}}}}',
        '{"command": "run", "env": {"OTHER": "sk-quiet0123456789abcdefgh", "LEVEL": "plain"}}',
        f'{{"url": "https://a.example/plain", "headers": {{"Authorization": "Bearer {SECRET}"}}}}',
        f'{{"command": "plain", "args": ["--token", "{SECRET}"]}}',
        f'{{"command": "plain", "args": ["--token",\n  "{SECRET}"]}}',
        f'{{"env": {{"API_TOKEN": "a\\"{SECRET}", "LEVEL": "plain"}}}}',
        f"docker run -e API_TOKEN={SECRET} plain",
        f"https://a.example/plain?token={SECRET}",
    ],
)
async def test_a_secret_in_a_pasted_server_is_masked(files: Files, text: str) -> None:
    files.write_servers()
    async with files.open((110, 40), approved=False) as driver:
        await open_form(driver)
        area = driver.app.screen.query_one("#text", TextArea)
        area.insert(text)
        await driver.until(lambda: "plain" in driver.text(), "the text")
        assert "quiet" not in driver.text()
        assert "•••" in driver.text()
        assert area.text == text


async def test_a_reference_in_a_pasted_server_is_shown(files: Files) -> None:
    files.write_servers()
    async with files.open((110, 40), approved=False) as driver:
        await open_form(driver)
        text = '{"command": "run", "env": {"API_TOKEN": "${env:WORK_TOKEN}"}}'
        driver.app.screen.query_one("#text", TextArea).insert(text)
        await driver.until(lambda: text in driver.text(), "the reference")
