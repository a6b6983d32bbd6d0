"""Turns messages and host events into blocks of the transcript."""

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import Any

from mcphost.host import events
from mcphost.llm.messages import (
    ImagePart,
    Message,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.blocks import Block, Notice, Prose, Speaker, Thinking, Words
from mcphost.tui.widgets.picture import PictureBlock, recognized
from mcphost.tui.widgets.streaming_block import blocks_of_text
from mcphost.tui.widgets.tool_card import ToolCard
from mcphost.tui.widgets.transcript import Transcript

_LONG = 4000
_TOLD_OF = 20
_PICTURES = 20  # of one result


def clock(seconds: float) -> str:
    """Hours and minutes in the user's own zone; empty when unknown."""
    return f"{datetime.fromtimestamp(seconds).astimezone():%H:%M}" if seconds else ""


def words_of(message: Message) -> Words:
    """A user message with what was attached to it."""
    attached: list[str] = []
    for part in message.parts:
        if isinstance(part, ResourcePart):
            attached.append(f"{part.server} · {part.uri}  ({len(part.text):,} characters)")
        elif isinstance(part, ImagePart):
            attached.append(f"picture, {part.mime_type}, about {len(part.data) * 3 // 4:,} bytes")
    return Words(message.text, tuple(attached), clock(message.at))


def prose_blocks(text: str) -> list[Block]:
    """A finished text as blocks; a very long one in parts, so that each is drawn only when it is in view."""
    return [Prose(text)] if len(text) < _LONG else blocks_of_text(text)


def picture_blocks(images: Iterable[ImagePart]) -> list[Block]:
    """Those of which the place can be kept from the beginning, up to a bound."""
    known = ((part, recognized(part)) for part in islice(images, _PICTURES))
    return [PictureBlock(part, kind) for part, kind in known if kind is not None]


def blocks_of(messages: Iterable[Message], drawn: Callable[[], bool] = lambda: False) -> list[Block]:
    """A stored conversation as blocks; with its pictures, if it has any and they are `drawn`."""
    out: list[Block] = []
    cards: dict[str, ToolCard] = {}
    speaking = False
    for message in messages:
        if message.role == "user":
            out.append(words_of(message))
            speaking = False
            continue
        if message.role == "assistant" and not speaking and message.parts:
            out.append(Speaker("Assistant", message.model, clock(message.at)))
            speaking = True
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                _returned(cards, part)
                if part.images and part.use_id in cards and drawn() and (pictures := picture_blocks(part.images)):
                    at = out.index(cards[part.use_id]) + 1
                    out[at:at] = pictures
            else:
                out.extend(_blocks_of_part(part, cards))
        if message.cut:
            out.append(Notice("warning", "This answer was stopped or broke off."))
    for card in cards.values():
        if card.state == "proposed":
            card.state = "stopped"
    return out


def _blocks_of_part(part: Any, cards: dict[str, ToolCard]) -> list[Block]:
    if isinstance(part, TextPart):
        return prose_blocks(part.text) if part.text.strip() else []
    if isinstance(part, ThinkingPart):
        return [Thinking(part.text)] if part.text.strip() else []
    if isinstance(part, ToolUsePart):
        card = cards[part.id] = ToolCard(part.id, "", part.name, part.arguments, part.raw)
        return [card]
    return []


def _returned(cards: dict[str, ToolCard], part: ToolReturnPart) -> None:
    card = cards.get(part.use_id)
    if card is not None:
        card.server, card.tool = part.server or card.server, part.tool or card.tool
        card.finish(part.outcome or ("error" if part.is_error else "ok"), part.text, 0, part.kept)
        card.kept = part.kept


class Conversation:
    """Follows the events of one conversation into its transcript."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self._told_undrawn = False
        self.cards: dict[str, ToolCard] = {}
        self.hand: dict[str, ToolCard] = {}
        self.unsent: list[ToolCard] = []
        self.running = 0
        self.phase = ""
        self._speaking = False
        self._label = ""
        self._asked: Block | None = None
        self._retry: Notice | None = None
        self._handlers: dict[type[events.HostEvent], Callable[[Any], None]] = {
            events.TurnStarted: self._turn_started,
            events.RoundStarted: self._round_started,
            events.TextDelta: self._text,
            events.ThinkingDelta: self._thinking,
            events.ModelRetrying: self._retrying,
            events.MessageFinished: self._message_finished,
            events.ToolProposed: self._proposed,
            events.ToolStarted: self._started,
            events.ToolProgress: self._progress,
            events.ToolFinished: self._finished,
            events.ResultReviewed: self._reviewed,
            events.TurnFinished: self._turn_finished,
            events.Told: self._told,
            events.ResourceChanged: self._resource_changed,
        }
        self._told_of: set[events.ResourceChanged] = set()
        self._is_cut = False

    def handle(self, event: events.HostEvent) -> None:
        """Show one event; kinds that are not of the conversation are ignored."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def load(self, messages: Iterable[Message]) -> None:
        """Show another conversation."""
        self.cards.clear()
        self._speaking = False
        self.transcript.load(blocks_of(messages, lambda: not self._undrawn()))

    def notice(self, level: str, text: str, hint: str = "") -> None:
        """A sentence of our own."""
        self.transcript.add(Notice(level, text, hint))

    def call_by_hand(self, card: ToolCard) -> None:
        """Show a call of the user's own at once; the host's events take it up once it is sent."""
        self.unsent.append(card)
        self.transcript.follow = True
        self.transcript.add(card)

    def fail_by_hand(self, card: ToolCard, outcome: str, text: str) -> None:
        """A call by hand that came to nothing: why, with what to do."""
        if card in self.unsent:
            self.unsent.remove(card)
        card.finish(outcome, text, card.seconds)
        self.transcript.changed(card)

    def last_answer(self) -> str:
        """The newest answer as its model wrote it."""
        parts: list[str] = []
        for block in reversed(self.transcript.blocks):
            if isinstance(block, Words | Speaker) and parts:
                break
            if isinstance(block, Prose):
                parts.append(block.text)
        return "\n\n".join(part.strip("\n") for part in reversed(parts))

    def mark_waiting(self, calls: set[str]) -> None:
        """Which calls wait for the user now."""
        if calls:
            self.phase = "waiting for you"
        elif self.phase == "waiting for you":
            self.phase = "running tools"
        for card in self.cards.values():
            state = "waiting" if card.call in calls else "proposed"
            if card.state in {"waiting", "proposed"} and card.state != state:
                card.state = state
                self.transcript.changed(card)

    # -- events

    def _speak(self) -> None:
        if not self._speaking:
            self._speaking = True
            self.transcript.add(Speaker("Assistant", self._label))

    def _turn_started(self, event: events.TurnStarted) -> None:
        self._speaking = False
        self._told_of.clear()
        self.transcript.follow = True
        self._retry = None
        self._is_cut = False
        if not event.again or self._asked is None:
            self._asked = words_of(event.message)
            self.transcript.add(self._asked)
        self.phase = "asking the model"

    def _round_started(self, event: events.RoundStarted) -> None:
        self._label = event.label or event.model
        self.phase = "waiting for the model"

    def _text(self, event: events.TextDelta) -> None:
        if not event.text:
            return
        self._speak()
        self.phase = "answering"
        self.transcript.stream(event.text)

    def _thinking(self, event: events.ThinkingDelta) -> None:
        if not event.text:
            return
        self._speak()
        self.phase = "thinking"
        self.transcript.stream(event.text, thinking=True)

    def _retrying(self, event: events.ModelRetrying) -> None:
        self.phase = f"trying again in {event.seconds:.0f} s"
        told = f"{event.reason} Trying again in {event.seconds:.0f} s (attempt {event.attempt})."
        if self._retry is not None and self._retry is self.transcript.blocks[-1]:
            self._retry.text = told
            self.transcript.changed(self._retry)
        else:
            self._retry = Notice("warning", told)
            self.transcript.add(self._retry)

    def _message_finished(self, event: events.MessageFinished) -> None:
        self.transcript.close_tail()
        self._is_cut = event.message.cut
        if event.message.cut:
            self.notice("warning", "Not complete; what was written so far is kept.")

    def _card(self, event: Any) -> ToolCard:
        card = self.cards.get(event.call) or self.hand.get(event.call)
        if card is None:
            card = ToolCard(event.call, event.server, getattr(event, "tool", ""), getattr(event, "arguments", {}))
            self.cards[event.call] = card
            self.transcript.add(card)
        return card

    def _proposed(self, event: events.ToolProposed) -> None:
        self._speak()
        card = ToolCard(event.call, event.server, event.tool, event.arguments, event.raw)
        self.cards[event.call] = card
        self.transcript.add(card)

    def _started(self, event: events.ToolStarted) -> None:
        if event.by == "user" and event.call not in self.cards:
            self._sent_by_hand(event)
            return
        if event.by == "earlier":  # of no turn, like a call by hand
            card = self.hand[event.call] = ToolCard(event.call, event.server, event.tool, event.arguments)
            card.start(event.arguments, event.by)
            self.transcript.add(card)
            return
        card = self._card(event)
        card.start(event.arguments, event.by)
        self.running += 1
        self.phase = "running tools"
        self.transcript.changed(card)

    def _sent_by_hand(self, event: events.ToolStarted) -> None:
        what = (event.server, event.tool, event.arguments)
        for card in self.unsent:
            if (card.server, card.tool, card.arguments) == what:
                self.unsent.remove(card)
                break
        else:  # it failed before this was heard of, and says so already
            card = ToolCard(event.call, event.server, event.tool, event.arguments)
        self.hand[event.call] = card

    def _progress(self, event: events.ToolProgress) -> None:
        card = self.cards.get(event.call) or self.hand.get(event.call)
        if card is not None:
            card.progress = (event.progress, event.total, event.message)
            self.transcript.changed(card)

    def _finished(self, event: events.ToolFinished) -> None:
        if (own := self.hand.pop(event.call, None)) is not None:
            if own.is_running:  # otherwise the reason is there already, with what to do about it
                own.finish(event.outcome, event.text, event.seconds)
                self.transcript.changed(own)
                self._draw(own, event.images)
            return
        card = self._card(event)
        if card.is_running:
            self.running -= 1
        card.finish(event.outcome, event.text, event.seconds, event.kept)
        self.transcript.changed(card)
        self._draw(card, event.images)

    def _undrawn(self) -> str:
        """Why pictures are not drawn here; empty when they are."""
        from mcphost.tui.image_cache import undrawn

        return undrawn(self.transcript.app)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    def _draw(self, card: ToolCard, images: Iterable[ImagePart]) -> None:
        """Pictures of a result, below its card; once it is said why there are none."""
        blocks = picture_blocks(images)
        why = self._undrawn() if blocks else ""
        if not why:
            self.transcript.insert(card, blocks)
        elif not self._told_undrawn:
            self._told_undrawn = True
            self.notice("info", "Pictures are named here and not drawn.", why)

    def _reviewed(self, event: events.ResultReviewed) -> None:
        card = self._card(event)
        card.reviewed, card.file = event.outcome, event.kept
        card.forget()
        self.transcript.changed(card)

    def _turn_finished(self, event: events.TurnFinished) -> None:
        self.transcript.close_tail()
        self.phase = ""
        self.running = 0
        for card in self.cards.values():
            if card.state in {"proposed", "waiting", "running"}:
                card.finish("stopped", "", 0)
                self.transcript.changed(card)
        self.cards.clear()
        if event.outcome == "failed":
            again = "Ctrl+R goes on." if self._is_cut else "Your message is one Up key away. Ctrl+R tries again."
            self.notice("error", event.error or "The turn failed.", f"{event.hint} {again}".strip())
        elif event.outcome == "rounds":
            self.notice("warning", "Stopped after its rounds of tool calls.", "Write 'go on' to continue.")
        elif self.transcript.blocks and self.transcript.blocks[-1] is self._asked:
            # Nothing at all came: a silent end looks like a broken program.
            self.notice("info", "Stopped." if event.outcome == "stopped" else "The model's answer is empty.")

    def _told(self, event: events.Told) -> None:
        self.notice(event.level, event.text, event.hint)

    def _resource_changed(self, event: events.ResourceChanged) -> None:
        """Once for each resource until the user says something: whoever changes often must not fill the screen."""
        if event not in self._told_of and len(self._told_of) < _TOLD_OF:
            self._told_of.add(event)
            name = f"{clean_line(event.server, 60)} · {clean_line(event.uri, 300)}"
            self.notice("info", f"{name} has changed.", "You attached it as it was before: attach it again.")
