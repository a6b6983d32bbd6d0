"""Dialogs that offer to summarize a conversation's earlier messages, and that let the user review the summary."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from mcphost.host.message_text import format_numbers
from mcphost.host.questions.compaction import (
    MAX_SENTENCE_CHARS,
    MAX_SENTENCES,
    CompactionVerdict,
    OfferCompaction,
    ReviewCompaction,
    SummarySentence,
    SummarySource,
    UseSummary,
)
from mcphost.llm.token_estimate import estimate_text_tokens
from mcphost.pluralize import format_cost, format_dollars, translate_count
from mcphost.translation import N_, _, ngettext
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import Section, TextViewRequested
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.tui.widgets.text_inputs import OrderedInput

UNKNOWN_SOURCE = N_("source unknown")


def describe_sources(sentence: SummarySentence) -> str:
    """Return the messages that a summary sentence is based on, such as "messages 3-5".

    If the user wrote the sentence, the text ends with "by you".
    """
    numbers = format_numbers(sentence.sources)
    named = ngettext("message {numbers}", "messages {numbers}", len(sentence.sources)).format(numbers=numbers)
    parts = [named if numbers else "", _("by you") if sentence.by_user else ""]
    return " · ".join(filter(None, parts)) or _(UNKNOWN_SOURCE)


def render_sentence(sentence: SummarySentence, *, dropped: bool = False) -> Content:
    """Return a summary sentence, struck through if *dropped* is true, above a line with its source messages."""
    style = "$faint strike" if dropped else "$text"
    sources = clean_line(describe_sources(sentence), 200)
    known = "$warning" if sources == _(UNKNOWN_SOURCE) else "$muted"
    note = (_("  dropped · ") if dropped else "  ") + sources
    return Content.assemble((clean_line(sentence.text, MAX_SENTENCE_CHARS), style), "\n", (note, known))


def make_source_sections(sources: Sequence[SummarySource]) -> tuple[Section, ...]:
    """Return the messages on which a summary sentence is based, as sections for the full-screen viewer."""
    return tuple(
        Section(_("── message {number}, {role}").format(number=one.number, role=one.role), one.text) for one in sources
    )


_MAX_SHOWN_INSTRUCTIONS = 300


class OfferCompactionDialog(Dialog[bool]):
    """Dialog that offers to summarize earlier messages when a request nearly fills the context window."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", N_("Not now")), ("make", N_("Make a summary")))
    KEYS: ClassVar[str] = N_("esc/d not now · m make a summary")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("m", "make", show=False),
    ]

    def __init__(self, question: OfferCompaction) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the dialog's title."""
        return _("Summarize earlier messages?")

    def preview(self) -> str:
        """Return the size of the next request, for the card shown while the dialog is minimized."""
        asked = self.details
        if not asked.window:
            return _("The next request has about {tokens:,} tokens.").format(tokens=asked.tokens)
        return _("The next request takes about {tokens} % of the model's window.").format(
            tokens=asked.tokens * 100 // asked.window
        )

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body: the request's size, the number of messages to summarize, and the summary's cost."""
        asked = self.details
        window = _(" of {window:,}").format(window=asked.window) if asked.window else ""
        facts = [
            (_("next request"), _("about {tokens:,}{window} tokens").format(tokens=asked.tokens, window=window)),
            (_("to summarize"), _("the first {messages}").format(messages=translate_count(asked.messages, "message"))),
            (_("written by"), clean_line(asked.model, 200)),
        ]
        if asked.tokens_after:
            facts[1:1] = [(_("afterwards"), _("about {tokens:,} tokens").format(tokens=asked.tokens_after))]
        if asked.cost is not None:
            about = _("about {dollars}").format(dollars=format_dollars(asked.cost))
            facts.append((_("costs"), about if asked.cost else format_cost(asked.cost)))
        words = _("You see the summary before it is used. The messages themselves are kept.")
        return [KeyValueList(facts), Content.styled(f"\n{words}", "$muted")]

    def action_make(self) -> None:
        """Accept the offer to summarize."""
        self.dismiss(True)


class ReviewCompactionDialog(Dialog[CompactionVerdict]):
    """Dialog to review a summary of earlier messages.

    The user can compare each sentence with the messages that it summarizes, and edit, drop or add sentences.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Keep all messages")),
        ("edit", N_("Edit")),
        ("drop", N_("Drop")),
        ("add", N_("Add")),
        ("use", N_("Use the summary")),
    )
    KEYS: ClassVar[str] = N_("esc/d keep all · ↑↓ enter messages · e edit · x drop · n add · u use")
    APPROVING: ClassVar[frozenset[str]] = frozenset({"use"})
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"edit", "add"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "decline", show=False),
        Binding("e", "edit", show=False, priority=True),
        Binding("n", "add", show=False, priority=True),
        Binding("x", "drop", show=False),
        Binding("u", "use", show=False),
    ]
    DEFAULT_CSS = """
    ReviewCompactionDialog #sentences {
        height: auto; border: none; background: $surface; padding: 0 1; margin: 1 0 0 0; scrollbar-size-vertical: 1;
    }
    ReviewCompactionDialog #sentences:focus { background-tint: transparent; }
    ReviewCompactionDialog Input { border: none; height: 1; background: $surface; }
    """

    def __init__(self, question: ReviewCompaction) -> None:
        super().__init__(question)
        self.details = question
        self.sentences = list(question.sentences)
        self.dropped: set[int] = set()
        self._edited: int | None = None  # the sentence in the input; None while a new sentence is written

    def headline(self) -> str:
        """Return the title, which gives the number of summarized messages."""
        return _("Use this summary for the first {messages}?").format(
            messages=translate_count(self.details.messages, "message")
        )

    def preview(self) -> str:
        """Return the number of sentences and the model's name, for the card shown while the dialog is minimized."""
        return _("{sentences}, written by {model}").format(
            sentences=translate_count(len(self.sentences), "sentence"), model=self.details.model
        )

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body: the summary's size and cost, and its sentences with their source messages."""
        sentences = OptionList(*self._render_options(), id="sentences", markup=False, compact=True)
        # The other rows are for the frame, the facts, the buttons and the keys.
        sentences.styles.max_height = max(4, self.size.height - 17)
        words = _("The model also gets the tool read_conversation, which returns the messages themselves.")
        return [KeyValueList(self._list_facts()), sentences, Content.styled(f"\n{words}", "$faint")]

    def _list_facts(self) -> list[tuple[str, str]]:
        asked = self.details
        cost = "" if asked.usage.cost is None else f" · {format_cost(asked.usage.cost)}"
        size = _("about {tokens_after:,} instead of {tokens_before:,} tokens").format(
            tokens_after=self._estimate_tokens(), tokens_before=asked.tokens_before
        )
        facts = [(_("size"), size), (_("written by"), clean_line(f"{asked.model}{cost}", 200))]
        own = clean_line(asked.instructions, _MAX_SHOWN_INSTRUCTIONS)
        return [*facts, (_("you asked"), own)] if own else facts

    def _estimate_tokens(self) -> int:
        """Estimate the number of tokens in the edited summary.

        This is the estimated size of the model's summary, adjusted for the text that the user added, changed or
        dropped.
        """
        versions = (self.details.sentences, self._kept)
        shown, kept = (sum(estimate_text_tokens(one.text) for one in version) for version in versions)
        return max(0, self.details.tokens_after + kept - shown)

    def _render_options(self) -> list[Option]:
        return [Option(render_sentence(one, dropped=at in self.dropped)) for at, one in enumerate(self.sentences)]

    def _refresh(self, selected: int) -> None:
        listed = self.query_one("#sentences", OptionList)
        listed.clear_options()
        listed.add_options(self._render_options())
        listed.highlighted = selected
        self.query_one(KeyValueList).show(self._list_facts())
        self.fit()

    @property
    def _kept(self) -> tuple[SummarySentence, ...]:
        return tuple(one for at, one in enumerate(self.sentences) if at not in self.dropped)

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled."""
        if button_id == "use" and not self._kept:
            return _("no sentence is left; keep all messages instead")
        return super().disabled_reason(button_id)

    def action_line(self, by: int) -> None:
        """Select the next (1) or previous (-1) sentence; the first key press only focuses the list of sentences."""
        listed = self.query_one("#sentences", OptionList)
        if not listed.has_focus:
            listed.focus()
            listed.highlighted = listed.highlighted or 0
            return
        (listed.action_cursor_down if by > 0 else listed.action_cursor_up)()

    def _selected(self) -> int | None:
        selected = self.query_one("#sentences", OptionList).highlighted
        if selected is None:
            self.show_hint(_("choose a sentence first, with up and down"))
        return selected

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the messages on which the selected sentence is based in the full-screen viewer."""
        event.stop()
        sentence = self.sentences[event.option_index]
        sources = [one for one in self.details.sources if one.number in sentence.sources]
        if sources:
            title = clean_line(sentence.text, 100)
            self.post_message(TextViewRequested(title, "", sections=make_source_sections(sources)))
        else:
            self.show_hint(_("the messages of this sentence are unknown"))

    # -- answers

    def action_use(self) -> None:
        """Accept the summary without the sentences that the user dropped."""
        self.approve("use", UseSummary(self._kept))

    def action_decline(self) -> None:
        """Reject the summary and keep all messages."""
        self.dismiss(self.question.refusal())

    def action_refuse(self) -> None:
        """Reject the summary and keep all messages; if the input is open, only close the input."""
        if not self.close_extra():
            self.action_decline()

    # -- changes

    def compose_extra(self) -> ComposeResult:
        """Yield the input for editing a sentence, which is hidden until an action opens it."""
        yield OrderedInput(
            placeholder=_("Your own sentence. Enter applies it, esc goes back."),
            id="sentence", max_length=MAX_SENTENCE_CHARS, compact=True, select_on_focus=False,
        )  # fmt: skip

    def action_drop(self) -> None:
        """Drop the selected sentence, or restore it if it was dropped."""
        if (selected := self._selected()) is not None:
            self.dropped ^= {selected}
            self._refresh(selected)

    def action_edit(self) -> None:
        """Open the input to edit the selected sentence."""
        if (selected := self._selected()) is not None:
            self._open_input(selected, self.sentences[selected].text)

    def action_add(self) -> None:
        """Open the input for a new sentence."""
        if len(self.sentences) >= MAX_SENTENCES:
            self.show_hint(_("a summary has at most {max_sentences} sentences").format(max_sentences=MAX_SENTENCES))
        else:
            self._open_input(None, "")

    def _open_input(self, edited: int | None, text: str) -> None:
        self._edited = edited
        self.query_one("#sentence", Input).value = clean_line(text, MAX_SENTENCE_CHARS)
        self.open_extra("sentence", _("enter apply · esc back"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Store the edited or new sentence, marked as written by the user."""
        event.stop()
        text = " ".join(event.value.split())
        if not text:
            self.show_hint(_("write a sentence, or go back with esc and drop this one with x"))
            return
        at = len(self.sentences) if self._edited is None else self._edited
        sources = () if self._edited is None else self.sentences[at].sources
        if self._edited is None or text != clean_line(self.sentences[at].text, MAX_SENTENCE_CHARS):
            self.sentences[at : at + 1] = [SummarySentence(text, sources, by_user=True)]
        self.close_extra()
        self._refresh(at)
        self.query_one("#sentences").focus()
