"""Dialog that shows a server's exact command or URL and settings, and asks whether to use it."""

import shlex
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustOnce, TrustServer, TrustVerdict
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean
from mcphost.tui.widgets.key_values import KeyValueList, render_diff_lines

_MAX_COMMAND_LINE = 50


def _quote_value(text: str) -> str:
    """Return the text sanitized on one line, in quotes if it is empty or has whitespace at an end."""
    shown = clean(text).replace("\n", "⏎")
    return f'"{shown}"' if not text or text != text.strip() else shown


class TrustServerDialog(Dialog[TrustVerdict]):
    """Dialog that asks whether mcphost may start a server or connect to it."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Do not use")),
        ("once", N_("This session")),
        ("always", N_("Always")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"once", "always"})
    KEYS: ClassVar[str] = N_("esc/d do not use · o this session · A always")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("o", "once", show=False),
        Binding("A", "always", show=False),
    ]

    def __init__(self, question: TrustServer) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Use the server {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the command or the URL for the card shown while the dialog is minimized."""
        return shlex.join(self.details.command) or self.details.url

    def body(self) -> list[Content | Widget]:
        """Return warnings, the command or URL, the settings, and what has changed since an earlier approval."""
        asked = self.details
        pairs: list[tuple[str, str]] = []
        out: list[Content | Widget] = [
            Content.styled(f"▲ {clean(translate_sentence(one))}", "bold $warning") for one in asked.warnings
        ]
        if asked.trusts_claims:
            words = _("▲ Your mcp.json sets trustAnnotations for it: tools that it calls read-only run without asking.")
            out.append(Content.styled(words, "$warning"))
        out += [Content("")] if out else []
        if asked.command:
            out.append(Content(_("It starts this program on your machine, with your user privileges:")))
            words = [clean(shlex.quote(word)).replace("\n", "⏎") for word in asked.command]
            # A long command has a line per word, so that the limits of each argument are visible.
            pairs.append((_("command"), ("\n" if sum(map(len, words)) > _MAX_COMMAND_LINE else " ").join(words)))
            if asked.cwd:
                pairs.append((_("folder"), clean(asked.cwd)))
            if asked.env_file:
                pairs.append((_("env file"), clean(asked.env_file)))
        if asked.url:
            out.append(Content(_("It sends what you and the model give it to this address:")))
            pairs.append((_("address"), clean(asked.url)))
            if asked.ca_file:
                pairs.append((_("CA file"), clean(asked.ca_file)))
        if asked.file:
            pairs.append((_("configured in"), clean(asked.file)))
        out.append(Content(""))
        out.append(KeyValueList(pairs))
        for heading, values in (
            (_("Current values of its references:"), asked.expansion),
            (_("It gets these environment variables:"), asked.environment),
            (_("It gets these headers:"), asked.headers),
            (_("Its sign-in settings:"), asked.sign_in),
        ):
            if values:
                # Names have a column of their own: a long value that wraps cannot imitate the next name.
                named = [(_quote_value(name), _quote_value(text)) for name, text in values.items()]
                out += [Content(f"\n{heading}"), KeyValueList(named)]
        if asked.restrictions:
            named = [
                (clean(what), clean(value))
                for what, _unused, value in (one.partition(": ") for one in asked.restrictions)
            ]
            out += [Content(_("\nIts restrictions:")), KeyValueList(named)]
        if asked.changed:
            out.append(Content.styled(_("\n▲ Changed since you approved it:"), "bold $warning"))
            out.append(render_diff_lines([line[:2] + clean(line[2:]) for line in asked.changed]))
        out.append(
            Content.styled(
                _("\nApproval applies to exactly this; if it changes, you are asked again. Each tool call still asks."),
                "$faint",
            )
        )
        return out

    def action_refuse(self) -> None:
        """Refuse to use the server."""
        self.dismiss(DoNotTrust())

    def action_once(self) -> None:
        """Allow the server for this session."""
        self.approve("once", TrustOnce())

    def action_always(self) -> None:
        """Allow the server until its definition changes."""
        self.approve("always", TrustAlways())
