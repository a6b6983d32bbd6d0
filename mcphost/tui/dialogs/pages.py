"""Dialogs that ask whether to open a tool's interactive page (MCP App), and whether to use text that it proposes."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.pages import OpenPage, PageMessage
from mcphost.translation import N_, _, ngettext
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.quoting_dialog import QuotingDialog
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.key_values import KeyValueList, QuotedPart

_MAX_IGNORED = 100
_NOTES = (
    N_("It is shown by your browser, from an address on this machine that only you can reach."),
    N_("It cannot read your files, or other sites than those above. Its server can get what you enter in it."),
    N_("It never sends messages to the model automatically."),
)


class OpenPageDialog(Dialog[bool]):
    """Dialog that asks whether to open a server's page in the browser."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", N_("Do not open")), ("open", N_("Open the page")))
    APPROVING: ClassVar[frozenset[str]] = frozenset({"open"})
    KEYS: ClassVar[str] = N_("esc/d do not open · o open the page")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "refuse", show=False), Binding("o", "open", show=False)]

    def __init__(self, question: OpenPage) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Open a page of {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the tool and the page for the card shown while the dialog is minimized."""
        return f"{self.details.tool}: {self.details.uri}"

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the page, the sites with which it exchanges data, and what it can do."""
        asked = self.details
        lists = (
            (_("connects to"), asked.connect),
            (_("loads from"), asked.resource),
            (_("embeds"), asked.frame),
            (_("base address"), asked.base_uri),
            # Kept out of mcphost's own sentences: an ignored entry may be any text.
            (_("ignored"), tuple(clean_line(entry, _MAX_IGNORED) for entry in asked.left_out)),
        )
        pairs: list[tuple[str, str | Content]] = [
            (_("tool"), clean_line(asked.tool, 200)),
            (_("page"), clean_line(asked.uri, 2_000)),
            (_("size"), _("{size:,} bytes").format(size=asked.size)),
            *((name, clean("\n".join(origins))) for name, origins in lists if origins),
        ]
        out: list[Content | Widget] = [KeyValueList(pairs)]
        if asked.connect or asked.resource or asked.frame or asked.base_uri:
            text = _("\n▲ The page exchanges data with these sites, without asking again.")
            out.append(Content.styled(text, "bold $warning"))
        else:
            out.append(Content.styled(_("\nThe page is allowed to exchange data with no other site."), "$text"))
        if asked.left_out:
            out.append(Content.styled(_("Ignored sites do not use https and are not allowed."), "$muted"))
        calls = ngettext(
            "It can ask to call {count} tool of its server; you are asked about each call that you have not allowed.",
            "It can ask to call {count} tools of its server; you are asked about each call that you have not allowed.",
            asked.tools,
        )
        out.append(Content.styled("\n" + calls.format(count=asked.tools), "$text"))
        out += [Content.styled(_(note), "$muted") for note in _NOTES]
        return out

    def action_refuse(self) -> None:
        """Close the dialog without opening the page."""
        self.dismiss(False)

    def action_open(self) -> None:
        """Open the page, unless the user has not yet scrolled to the end of the dialog."""
        self.approve("open", True)


class PageMessageDialog(QuotingDialog[bool]):
    """Dialog that asks whether to insert text proposed by a page into the message that the user is writing."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Ignore it")),
        ("take", N_("Put it in the message")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"take"})
    KEYS: ClassVar[str] = N_("esc/d ignore it · p put it in the message")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "refuse", show=False), Binding("p", "take", show=False)]

    def __init__(self, question: PageMessage) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Use a message from the page of {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the proposed text for the card shown while the dialog is minimized."""
        return self.details.text

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the proposed text, and a note that nothing is sent until the user sends it."""
        heading = QuotedPart(_("The page proposes:"), "$faint", is_heading=True)
        note = _("\nIt is added to the message that you are writing. Nothing is sent before you send it.")
        return [self.quote([heading, QuotedPart(self.details.text)]), Content.styled(note, "$muted")]

    def action_refuse(self) -> None:
        """Close the dialog without using the proposed text."""
        self.dismiss(False)

    def action_take(self) -> None:
        """Insert the proposed text into the message, unless the user has not yet seen the end of the text."""
        self.approve("take", True)
