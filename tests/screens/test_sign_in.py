"""Tests for the sign-in question: shown in full, and cancelled by default."""

from typing import Any

import pytest

from mcphost.host.questions.sign_in import (
    DeclineSignIn,
    OpenInBrowser,
    PastedRedirect,
    SignInQuestion,
    SwitchSignInMethod,
)
from mcphost.serialization import replace
from mcphost.sign_in_types import SignInProgress
from mcphost.tui.dialogs import sign_in as dialog_of_sign_in
from mcphost.tui.screens.qr_code import QUIET_ZONE, build_matrix, render_large, render_small
from tests.screens.ask_question import PendingQuestion, ask_and_press
from tests.screens.conftest import Run
from tests.screens.fake_host import sample_server

pytestmark = pytest.mark.anyio
URL = "https://login.example/authorize?response_type=code&client_id=c&scope=tools%3Aread&resource=https%3A%2F%2Fmcp.example"


def sign_in(**more: Any) -> SignInQuestion:
    return SignInQuestion(
        server="tracker",
        why="the server tracker wants to know who you are",
        url=URL,
        host="login.example",
        issuer="https://login.example",
        scopes=("tools:read", "offline_access"),
        **more,
    )


@pytest.mark.req("auth.scope.shown")
async def test_host_issuer_scopes_and_the_full_url_are_shown(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, sign_in(account="work", note="Try \x1b[31magain."))
        await driver.enter_question()
        shown = driver.text()
        for text in ("Sign in to tracker?", "login.example", "https://login.example", "tools:read", "work", "again."):
            assert text in shown, text
        assert URL[-30:] in shown.replace("\n", "").replace(" ", "").replace("│", "")
        assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), DeclineSignIn()),
        (("enter",), DeclineSignIn()),
        (("d",), DeclineSignIn()),
        (("o",), OpenInBrowser()),
    ],
)
async def test_only_the_key_for_it_opens_a_browser(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=(100, 40)) as driver:
        assert await ask_and_press(driver, sign_in(), *keys) == answer


async def test_warnings_about_the_address_come_first(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, sign_in(code="GITH-UBCD", warnings=("You sign in at \x1bevil.",)))
        await driver.enter_question()
        shown = driver.text()
    assert "▲ You sign in at ␛evil." in shown
    assert shown.index("▲ You sign in") < shown.index("G I T H")


@pytest.mark.req("auth.callback.manual")
async def test_other_accounts_are_listed_with_how_to_choose_them(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, sign_in(account="work", other_accounts=("default", "h\x1bome")))
        await driver.enter_question()
        shown = " ".join(driver.text().replace("│", " ").split())
    assert "already signed in default, h␛ome; to use it instead: esc, then /accounts" in shown


async def test_a_url_can_be_pasted_and_escape_goes_back_first(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, sign_in())
        dialog = await driver.enter_question()
        await driver.pilot.press("p", "escape")
        assert pending.answer is None
        await driver.pilot.press("p")
        dialog.query_one("#redirect").value = " http://127.0.0.1:1/callback?code=c&state=s "
        await driver.pilot.press("enter")
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == PastedRedirect("http://127.0.0.1:1/callback?code=c&state=s")


@pytest.mark.req("auth.scope.shown")
async def test_scopes_are_described_with_their_names(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, sign_in())
        await driver.enter_question()
        assert "read tools  (tools:read)" in driver.text()
        assert "stay signed in while you are away  (offline_access)" in driver.text()


async def test_the_remaining_time_counts_down_to_zero(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(dialog_of_sign_in, "monotonic", lambda: now)
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, sign_in(seconds=300, asked_at=1000.0))
        dialog = await driver.enter_question()
        assert "5:00 left" in driver.text()
        now = 1061.0
        dialog.update_remaining_time()
        await driver.until(lambda: "3:59 left" in driver.text(), "a minute later")
        now = 9999.0
        dialog.update_remaining_time()
        await driver.until(lambda: "0:00 left" in driver.text(), "long after")


async def test_without_a_browser_the_other_method_is_shown_first(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, sign_in(browser=False, other_method="code"))
        await driver.enter_question()
        assert "No browser can open on this machine." in driver.text()
        assert "Paste an address" in driver.text()
        assert "Use a code" in driver.text()
        assert "Open the browser" not in driver.text()
        await driver.pilot.press("o")
        assert pending.answer is None, "there is no browser to open"
        await driver.pilot.press("c")
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == SwitchSignInMethod()


async def test_a_code_is_shown_with_its_address_and_nothing_can_be_pasted(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, sign_in(code="WDJB-MJHT", interval=5.0, seconds=300, other_method="browser"))
        await driver.enter_question()
        assert "W D J B - M J H T" in driver.text()
        assert "mcphost checks every" in driver.text()
        assert "login.example" in driver.text()
        assert "Paste" not in driver.text()
        await driver.pilot.press("p")
        assert not driver.app.screen.query("#extra.shown")
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == DeclineSignIn()


async def test_the_dialog_of_a_code_follows_how_often_it_was_asked_about(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, sign_in(code="WDJB-MJHT", interval=5.0, seconds=300))
        await driver.enter_question()

        def told() -> str:
            return " ".join(driver.text().replace("│", " ").split())

        driver.host.put(SignInProgress(server="other", step="person", polls=9, interval=7))
        driver.host.put(SignInProgress(server=sign_in().server, step="person", polls=1, interval=5))
        await driver.until(lambda: "checks every 5 s · checked once, 0 s ago" in told(), "the first time")
        driver.host.put(SignInProgress(server=sign_in().server, step="person", polls=2, interval=10, slowed=True))
        await driver.until(lambda: "checks only every 10 s" in told(), "less often")
        assert "Cancel" in driver.text()


async def test_a_server_with_a_sign_in_in_progress_shows_it_and_s_stops_it(run: Run) -> None:
    view = sample_server("hub", "connecting", sign_in_status="requesting the token")
    async with run(views=(view,), size=(120, 40)) as driver:
        await driver.until(lambda: "signing in…" in driver.text(), "at the side")
        await driver.pilot.press("f3")
        await driver.until(lambda: "requesting the token; s cancels" in driver.text(), "the step")
        await driver.pilot.press("s")
        await driver.until(lambda: driver.host.accounts.signed == [("stopped", "hub")], "the end")


async def test_there_is_no_other_method_if_none_is_offered(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, sign_in())
        await driver.enter_question()
        assert "code" not in driver.text().replace("QR code", "").replace("response_type=code", "")
        await driver.pilot.press("c")
        assert pending.answer is None


def qr_modules(strips: Any) -> list[list[int]]:
    """Return the QR code as a scanner sees it: black is 1, white is 0, and anything else is 2.

    Each row of terminal cells contains two rows of the code.
    """
    shades = {"#ffffff": 0, "#000000": 1}
    out: list[list[int]] = []
    for line in strips:
        upper: list[int] = []
        lower: list[int] = []
        for part in line:
            frontend, behind = (
                shades.get(str(item and item.name), 2) for item in (part.style.color, part.style.bgcolor)
            )
            for char in part.text:
                upper.append(frontend if char == "▀" else behind)
                lower.append(frontend if char == "▄" else behind)
        out += [upper, lower]
    return out


def contains_modules(recorded: list[list[int]], expected: list[list[int]]) -> bool:
    """Return whether the whole QR code *expected* is on the screen."""
    width, height = len(expected[0]), len(expected)
    return any(
        all(recorded[top + row][left : left + width] == expected[row] for row in range(height))
        for top in range(len(recorded) - height + 1)
        for left in range(len(recorded[0]) - width + 1)
    )


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_qr_code_is_drawn_completely_in_black_on_white_in_any_theme(
    run: Run, theme: str, size: tuple[int, int]
) -> None:
    whole = "https://login.example/device?user_code=WDJB-MJHT"
    async with run(size=size) as driver:
        if theme == "light":
            await driver.pilot.press("ctrl+l")
        pending = PendingQuestion(driver, sign_in(code="WDJB-MJHT", verification_uri_complete=whole))
        await driver.enter_question()
        await driver.pilot.press("q")
        expected = build_matrix(whole)
        if size == (120, 40):
            expected = [[item for item in row for _ in (1, 2)] for row in expected for _ in (1, 2)]
        await driver.until(
            lambda: contains_modules(qr_modules(driver.app.screen._compositor.render_strips()), expected),
            "every module",
        )
        await driver.pilot.press("escape")
        await driver.enter_question()
        assert pending.answer is None, "the question waits under the code"


async def test_a_window_too_small_for_a_qr_code_shows_the_needed_size(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, sign_in())
        await driver.enter_question()
        await driver.pilot.press("q")
        await driver.until(lambda: "too small for the QR code: it needs" in driver.text(), "a sentence")
        assert not contains_modules(qr_modules(driver.app.screen._compositor.render_strips()), [[1, 1, 1, 1]])


def test_a_text_that_no_qr_code_can_hold_has_none() -> None:
    assert build_matrix("x" * 2_001) == []
    assert build_matrix("") == []
    assert all(not any(row) for row in build_matrix("https://a.example")[:QUIET_ZONE]), "a quiet zone"


def test_a_half_block_is_drawn_from_the_side_that_hides_a_gap() -> None:
    assert render_small([[1], [1], [0], [1], [1]]) == [[(" ", 0, 1)], [("▀", 0, 1)], [("▄", 0, 1)]]
    assert render_small([[1], [0], [1]]) == [[("▄", 0, 1)], [("▀", 1, 0)]], (
        "there is nothing below the last row but white"
    )
    assert [len(row) for row in render_large([[1, 0]])] == [4]


async def test_a_withdrawn_question_closes_its_qr_code(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(
            driver, sign_in(code="AB", verification_uri_complete="https://login.example/device?user_code=AB")
        )
        await driver.enter_question()
        await driver.pilot.press("q")
        await driver.until(lambda: "▀" in driver.text() or "▄" in driver.text(), "the code")
        pending.worker.cancel()
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")


async def test_every_right_can_be_read_to_its_last_character(run: Run) -> None:
    scopes = tuple(f"{n:03}:{'x' * 190}:end{n:02}" for n in range(100))
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, replace(sign_in(), scopes=scopes))
        await driver.enter_question()
        seen = driver.text()
        assert "100 permissions:" in seen
        for _ in range(200):
            await driver.pilot.press("pagedown")
            shown = driver.text()
            if shown in seen:
                break
            seen += shown
        flat = "".join(char for char in seen if char not in " │\n")
    assert [scope for scope in scopes if f"{scope[:4]}xxx" not in flat or f":end{scope[-2:]}" not in flat] == []
