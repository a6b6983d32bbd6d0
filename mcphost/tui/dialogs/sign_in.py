"""Dialogs to sign in by browser, device code or pasted URL, and to enter an OAuth client ID."""

from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from mcphost.host.questions.sign_in import (
    ClientVerdict,
    DeclineClient,
    DeclineSignIn,
    EnterClientId,
    EnteredClient,
    OpenInBrowser,
    PastedRedirect,
    SignInQuestion,
    SignInVerdict,
    SwitchSignInMethod,
    describe_scope,
)
from mcphost.pluralize import format_countdown
from mcphost.sign_in_types import SignInProgress
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.visit_url import highlight_host
from mcphost.tui.screen_reader import update_seconds
from mcphost.tui.screen_text import account_title, clean, clean_line
from mcphost.tui.widget_messages import CopyRequested, QrCodeRequested
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.tui.widgets.text_inputs import LabeledInput, LabeledInputGroup, OrderedInput

NO_BROWSER = N_("No browser can open on this machine.")
BROWSER_HELP = N_(
    "\nmcphost never sees your password. If the browser cannot return here, open the "
    "address elsewhere, sign in, and paste the final address, even if its page does not "
    "load."
)
MAX_UNCOUNTED_SCOPES = 5
"""Maximum number of scopes that are listed without stating how many there are."""
DEVICE_CODE_HELP = N_("\nUse any browser on any device. mcphost never sees your password.")


def describe_scopes(scopes: tuple[str, ...]) -> str:
    """Describe each OAuth scope on a separate line: what it permits, followed by its name."""
    if not scopes:
        return _("use what the server permits every user")
    told = [(describe_scope(scope, _), clean(scope).replace("\n", "⏎")) for scope in scopes]
    lines = [f"{words}  ({raw})" if words else raw for words, raw in told]
    return "\n".join(
        [_("{lines_count} permissions:").format(lines_count=len(lines)), *lines]
        if len(lines) > MAX_UNCOUNTED_SCOPES
        else lines
    )


class SignInDialog(Dialog[SignInVerdict]):
    """Dialog that asks whether and how to sign in to a server.

    The user can sign in with the browser, with a device code, or by pasting the redirect URL.
    """

    SHOW_ACCOUNT: ClassVar[bool] = False
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Cancel")),
        ("browser", N_("Open the browser")),
        ("paste", N_("Paste an address")),
        ("switch_method", N_("Use a code")),
        ("qr_code", N_("QR code")),
    )
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"paste"})
    INPUT_KEYS: ClassVar[str] = N_("enter use the address · esc back")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("o", "browser", show=False),
        Binding("p", "paste", show=False, priority=True),
        Binding("c", "switch_method", show=False),
        Binding("q", "qr_code", show=False),
        Binding("y", "copy", show=False),
    ]
    DEFAULT_CSS = """
    SignInDialog #redirect { border: none; height: 1; background: $surface; padding: 0 1; }
    """

    def __init__(self, question: SignInQuestion) -> None:
        super().__init__(question)
        self.details = question
        self._progress: SignInProgress | None = None
        self._progress_at = 0.0
        self.key_line = self.key_hints()

    def key_hints(self) -> str:
        """Return the key hints for the available sign-in methods."""
        asked = self.details
        words = [_("esc/d cancel")]
        if asked.browser:
            words.append(_("o open the browser"))
        if not asked.code:
            words.append(_("p paste"))
        if asked.other_method:
            words.append(_("c code") if asked.other_method == "code" else _("c without a code"))
        return " · ".join((*words, _("q QR"), _("y copy")))

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Sign in to {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the host at which the user signs in, for the card shown while the dialog is minimized."""
        return _("you sign in at {host}").format(host=self.details.host)

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the authorization server, the scopes, and the URL or the device code."""
        asked = self.details
        out: list[Content | Widget] = []
        if asked.note:
            out.append(Content.styled(clean(translate_sentence(asked.note)) + "\n", "bold $warning"))
        elif not asked.browser and not asked.code:
            out.append(Content.styled(_(NO_BROWSER) + "\n", "bold $warning"))
        out += [
            Content.styled(f"▲ {clean(translate_sentence(warning))}\n", "bold $warning") for warning in asked.warnings
        ]
        if asked.code:
            out.append(Content.assemble((_("Enter this code at "), "$faint"), highlight_host(asked.url)))
            # Spaced letters are easier to read and to type on another device.
            spaced = f"    {' '.join(clean_line(asked.code, 100))}    "
            blank = " " * Content(spaced).cell_length
            out.append(Content.styled(f"{blank}\n{spaced}\n{blank}", "bold $accent on $background"))
        pairs = [
            (_("you sign in at"), clean_line(asked.host, 300)),
            (_("issuer"), clean(asked.issuer)),
            (_("it may then"), describe_scopes(asked.scopes)),
        ]
        if asked.account:
            pairs.append((_("account"), clean_line(account_title(asked.account), 100)))
        if asked.other_accounts:
            names = clean_line(join_list(map(account_title, asked.other_accounts)), 300)
            pairs.append(
                (_("already signed in"), _("{names}; to use it instead: esc, then /accounts").format(names=names))
            )
        out.append(KeyValueList(pairs))
        if not asked.code:
            told = (
                _("\nThe full address that the browser opens:\n")
                if asked.browser
                else _("\nOpen this address on another device:\n")
            )
            out.append(Content.assemble((told, "$faint"), highlight_host(asked.url)))
        out.append(Content.styled(_(DEVICE_CODE_HELP) if asked.code else _(BROWSER_HELP), "$faint"))
        return out

    def compose_extra(self) -> ComposeResult:
        """Yield the input for the redirect URL, which is hidden until an action opens it."""
        yield OrderedInput(placeholder="http://127.0.0.1:…/callback?code=…", id="redirect", compact=True)

    def on_mount(self) -> None:
        """Show only the buttons of the available sign-in methods, and update the remaining time every second.

        In screen reader mode, the time is updated once a minute.
        """
        super().on_mount()
        asked = self.details
        for button_id, is_available in (
            ("browser", asked.browser),
            ("paste", not asked.code),
            ("switch_method", bool(asked.other_method)),
        ):
            self.query_one(f"#{button_id}").display = is_available
        if asked.other_method == "browser":
            self.query_one("#switch_method", Button).label = Content(_("Sign in without a code"))
        self.show_key_hints(self.key_hints())
        self.update_remaining_time()
        self.set_interval(update_seconds(self, 1.0), self.update_remaining_time)

    def _requester_text(self) -> str:
        """Return the reason for the sign-in, how often the authorization server was polled, and the remaining time."""
        asked, now = self.details, self._progress
        words = [clean_line(translate_sentence(asked.why), 400)]
        if asked.interval:
            every = now.interval if now is not None else asked.interval
            words.append(
                (
                    _("mcphost checks only every {every:g} s")
                    if now is not None and now.slowed
                    else _("mcphost checks every {every:g} s")
                ).format(every=every)
            )
            if now is not None and now.polls:
                polled = (
                    _("checked once, {seconds} s ago")
                    if now.polls == 1
                    else _("checked {polls} times, last {seconds} s ago")
                )
                words.append(polled.format(polls=now.polls, seconds=round(monotonic() - self._progress_at)))
        if asked.seconds:
            words.append(
                _("{asked_at} left").format(asked_at=format_countdown(asked.asked_at + asked.seconds - monotonic()))
            )
        return " · ".join(words)

    def update_remaining_time(self) -> None:
        """Update the line that shows the reason for the sign-in and the remaining time."""
        self.query_one("#why", Static).update(Content(self._requester_text()))
        self.fit()

    def show_sign_in_progress(self, event: SignInProgress) -> None:
        """Show how often, and when, mcphost last checked whether the user has completed the sign-in.

        An event is ignored if it concerns another server or another step, or if the dialog shows no device code.
        """
        if event.server == self.details.server and event.step == "person" and self.details.code:
            self._progress, self._progress_at = event, monotonic()
            if self.is_mounted:
                self.update_remaining_time()

    def action_refuse(self) -> None:
        """Cancel the sign-in; if the input is open, only close it."""
        if not self.close_extra():
            self.dismiss(DeclineSignIn())

    def action_browser(self) -> None:
        """Sign in with the browser, if a browser can be opened on this machine."""
        if self.details.browser:
            self.dismiss(OpenInBrowser())

    def action_switch_method(self) -> None:
        """Switch between signing in with the browser and with a device code."""
        if self.details.other_method:
            self.dismiss(SwitchSignInMethod())

    def action_qr_code(self) -> None:
        """Show the sign-in URL as a QR code.

        If the authorization server provides a URL that already contains the device code, that URL is shown.
        """
        self.post_message(
            QrCodeRequested(
                _("Sign in at {host}").format(host=self.details.host),
                self.details.verification_uri_complete or self.details.url,
            )
        )

    def action_copy(self) -> None:
        """Copy the device code or the URL to the clipboard; this works over SSH if the terminal supports it."""
        self.post_message(CopyRequested(self.details.code or self.details.url))

    def action_paste(self) -> None:
        """Open the input for the redirect URL, unless the user signs in with a device code."""
        if self.details.code:
            return
        self.open_extra("redirect", self.INPUT_KEYS)

    def open_retry_input(self) -> None:
        """Open the input for the redirect URL, because the previously pasted text was not the redirect URL."""
        self.action_paste()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Dismiss the dialog with the redirect URL that the user pasted, unless the input is empty."""
        event.stop()
        if event.value.strip():
            self.dismiss(PastedRedirect(event.value.strip()))


class EnterClientIdDialog(Dialog[ClientVerdict]):
    """Dialog that asks for the OAuth client ID and client secret.

    The authorization server issues both when the user registers mcphost as a client.
    """

    SHOW_ACCOUNT: ClassVar[bool] = False
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", N_("Cancel")), ("enter", N_("Enter the client ID")))
    KEYS: ClassVar[str] = N_("esc/d cancel · e enter the client ID")
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"enter"})
    INPUT_KEYS: ClassVar[str] = N_("enter continue · esc back")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("e", "enter", show=False, priority=True),
    ]

    def __init__(self, question: EnterClientId) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Enter a client ID for {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return a note that mcphost must be registered, for the card shown while the dialog is minimized.

        The note names the authorization server.
        """
        return _("mcphost must be registered at {issuer}").format(issuer=self.details.issuer)

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: where to register mcphost, the redirect URI, and where the secret is stored."""
        asked = self.details
        pairs = [(_("issuer"), clean(asked.issuer)), (_("redirect address"), clean(asked.redirect_uri))]
        if asked.account:
            pairs.append((_("account"), clean_line(account_title(asked.account), 100)))
        return [
            Content.styled(clean(translate_sentence(asked.note)) + "\n", "bold $warning"),
            Content(
                _("You can sign in only after mcphost is registered with this issuer. Then enter its client ID.\n")
            ),
            KeyValueList(pairs),
            Content.styled(
                _(
                    "\nThe id and secret are sent only to the issuer, and saved with your sign-ins after a "
                    "successful sign-in. Do not enter your own password."
                ),
                "$faint",
            ),
        ]

    def compose_extra(self) -> ComposeResult:
        """Yield the inputs for the client ID and the client secret, which are hidden until an action opens them."""
        yield LabeledInputGroup(
            LabeledInput(_("client ID"), "client"),
            LabeledInput(_("client secret"), "secret", hidden=True, placeholder=_("if there is one; not shown")),
        )

    def action_refuse(self) -> None:
        """Cancel the sign-in; if the inputs are open, only close them."""
        if not self.close_extra():
            self.dismiss(DeclineClient())

    def action_enter(self) -> None:
        """Open the inputs for the client ID and secret."""
        self.open_extra("client", self.INPUT_KEYS)

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Dismiss the dialog with the client ID and client secret if Enter was pressed in the input for the secret.

        If the client ID is empty, focus its input instead.
        """
        event.stop()
        client, secret = (value.strip() for value in event.values)
        if not client:
            self.query_one(LabeledInputGroup).focus_input()
        elif event.index:
            self.dismiss(EnteredClient(client, secret))
