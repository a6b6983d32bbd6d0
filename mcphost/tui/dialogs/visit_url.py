"""Dialogs for URL elicitation.

One dialog asks whether to open a URL for a server. The other is shown if a server has refused a tool call until the
user has visited certain URLs; it asks whether to repeat the call after the visit.
"""

from time import monotonic
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from mcphost.host.questions.questions import AcceptUrl, Cancel, Decline, RetryCall, UrlVerdict, VisitUrl
from mcphost.pluralize import format_duration
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.quoting_dialog import QuotingDialog
from mcphost.tui.screen_reader import update_seconds
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widget_messages import CopyRequested, QrCodeRequested
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.unicode_forms import split_url


def highlight_host(url: str, style: str = "$text") -> Content:
    """Return the full URL on one line, with its host in bold so that no other part can be mistaken for the host."""
    try:
        host = split_url(url).netloc
    except ValueError:
        host = ""
    before, found, after = url.partition(f"//{host}") if host else (url, "", "")
    if not found:
        return Content.styled(clean_line(url, len(url) * 8), style)
    most = len(url) * 8  # A mark for a hidden character is longer than the character; nothing may be truncated here.
    return Content.assemble(
        (clean_line(before, most) + "//", "$muted"),
        (clean_line(host, most), "bold $accent"),
        (clean_line(after, most), style),
    )


def highlight_question_host(question: VisitUrl) -> Content:
    """Return the full URL that a server asks the user to open, with the whole host in bold.

    The registrable domain is not highlighted separately, because finding it would require a public suffix list.
    """
    before, host, after = _split_at_host(question)
    return Content.assemble((clean(before), "$muted"), (clean(host), "bold $accent"), (clean(after), "$muted"))


def _split_at_host(question: VisitUrl) -> tuple[str, str, str]:
    url, host = question.url, question.host
    start = url.find("://") + 3
    end = next((at for at in range(start, len(url)) if url[at] in "/?#"), len(url))
    at = url.lower().find(host.lower(), url.rfind("@", start, end) + 1 or start, end)
    return (url, "", "") if at < 0 else (url[:at], url[at : at + len(host)], url[at + len(host) :])


REFUSALS = N_("Decline tells the server no, Cancel that you did not answer.")
_NO_BROWSER = N_("No browser could be opened. Open the address yourself; then press o.")
_MANUAL_KEYS = N_("esc cancel · d decline · q QR · y copy · o I opened it")


class VisitUrlDialog(QuotingDialog[UrlVerdict]):
    """Dialog that asks whether to open a URL for a server.

    If no browser could be opened, it asks whether the user has opened the URL elsewhere.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Cancel")),
        ("decline", N_("Decline")),
        ("visit", N_("Open the browser")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"visit"})
    KEYS: ClassVar[str] = N_("esc cancel · d decline · o open the browser")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "decline", show=False),
        Binding("o", "visit", show=False),
        Binding("y", "copy", show=False),
        Binding("q", "qr", show=False),
    ]

    def __init__(self, question: VisitUrl) -> None:
        super().__init__(question)
        self.details = question
        if question.is_browser_missing:
            self.key_line = _MANUAL_KEYS

    def on_mount(self) -> None:
        """Label the approving button "I opened it" if no browser could be opened and the user must open the URL."""
        super().on_mount()
        if self.details.is_browser_missing:
            self.query_one("#visit", Button).label = _("I opened it")

    def key_hints(self) -> str:
        """Return the key hints, which are different if no browser could be opened."""
        return _MANUAL_KEYS if self.details.is_browser_missing else self.KEYS

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Open an address for {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the host and the server's message for the card shown while the dialog is minimized."""
        return f"{self.details.host}: {self.details.message}"

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the host, the warnings, the full URL and the server's message."""
        asked = self.details
        out: list[Content | Widget] = [KeyValueList([(_("host"), clean_line(asked.host, 300))], style="bold $text")]
        out += [
            Content.styled(f"▲ {clean(translate_sentence(warning))}", "bold $warning") for warning in asked.warnings
        ]
        above = _("\nThe full address that the browser opens:\n")
        if asked.is_browser_missing:
            out.append(Content.styled(f"▲ {_(_NO_BROWSER)}", "bold $warning"))
            above = _("\nThe full address:\n")
        whole = Content.assemble((above, "$faint"), highlight_question_host(asked))
        out.append(Static(whole, markup=False))
        if asked.message:  # empty for a server's page
            out += [Content(""), self.quote_statement(asked.message)]
        out.append(
            Content.styled(
                _("\nmcphost has not opened it. Neither mcphost nor the model sees the page or what you enter."),
                "$faint",
            )
        )
        out.append(Content.styled(_(REFUSALS), "$faint"))
        return out

    def action_refuse(self) -> None:
        """Cancel the elicitation, neither accepting nor declining it."""
        self.dismiss(Cancel())

    def action_decline(self) -> None:
        """Decline to open the URL."""
        self.dismiss(Decline())

    def action_copy(self) -> None:
        """Copy the URL to the clipboard."""
        self.post_message(CopyRequested(self.details.url))

    def action_qr(self) -> None:
        """Show the URL as a QR code, for a browser on another machine."""
        self.post_message(QrCodeRequested(_("Open {host}").format(host=self.details.host), self.details.url))

    def action_visit(self) -> None:
        """Approve opening the URL; if a browser is available, the URL is then opened in it."""
        self.approve("visit", AcceptUrl())


class RetryCallDialog(Dialog[bool]):
    """Dialog that asks whether to repeat a tool call after the user has completed a step in the browser."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", N_("Give up")), ("retry", N_("Call again")))
    KEYS: ClassVar[str] = N_("esc/d give up · r call again")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "refuse", show=False), Binding("r", "retry", show=False)]

    def __init__(self, question: RetryCall) -> None:
        super().__init__(question)
        self.details = question
        self._started_at = monotonic()

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Call {server} again?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the URLs for the card shown while the dialog is minimized."""
        return " · ".join(self.details.urls)

    def on_mount(self) -> None:
        """Show how long the dialog has been open, and update the time every second.

        In screen reader mode, the time is updated once a minute.
        """
        super().on_mount()
        # Mounted first, so that it stays visible above long URLs.
        self.query_one("#body").mount(Static(self._waiting_text(), id="waited", markup=False), before=0)
        self.set_interval(
            update_seconds(self, 1), lambda: self.query_one("#waited", Static).update(self._waiting_text())
        )

    def _waiting_text(self) -> Content:
        seconds = int(monotonic() - self._started_at)
        closes = _(" · closes automatically when the server says that you are done\n")
        waiting = _("waiting for {shown}").format(shown=format_duration(seconds)) if seconds else _("waiting")
        return Content.assemble((waiting, "$warning"), (closes, "$faint"))

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the URLs that the user must visit before the tool call is repeated."""
        urls = [Content.assemble("\n", highlight_host(url, "$muted")) for url in self.details.urls]
        return [Content(_("The call waits until you finish in the browser at:")), *urls]

    def action_retry(self) -> None:
        """Repeat the tool call."""
        self.dismiss(True)
