"""Presenter that updates the transcript when the host reports events of the conversation."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mcphost.host import events
from mcphost.llm.messages import ImagePart, Message
from mcphost.protocol.resources import UriIndex
from mcphost.translation import _, translate_sentence
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.transcript.blocks import BackgroundResult, NoticeBlock, SpeakerHeading, TranscriptBlock, UserMessage
from mcphost.tui.transcript.message_blocks import (
    attached_images,
    build_blocks,
    build_image_cards,
    build_inserted_answer,
    build_user_message,
    format_time,
)
from mcphost.tui.transcript.notices import (
    ResourceChangeNotices,
    SummarizingNotice,
    build_compaction_notice,
    build_ending_notice,
    build_unanswered_notice,
)
from mcphost.tui.transcript.streaming import TextSplitter
from mcphost.tui.transcript.tool_card import ToolCard, UnsentCards
from mcphost.tui.transcript.transcript import Transcript

if TYPE_CHECKING:
    from mcphost.tui.transcript.opened_conversation import TimedBlock


class TranscriptPresenter:
    """Presenter that updates a transcript from the host events of a conversation.

    `phase` describes what the model's current turn is doing, such as "thinking", for the status line; it is "" between
    turns.
    """

    def __init__(self, transcript: Transcript, *, show_costs: bool = True) -> None:
        self.transcript = transcript
        self.find_seconds: Callable[[str], float | None] = lambda call: None  # see `ToolCard.find_seconds`
        self.show_costs = show_costs
        """Whether the cost of each answer is shown beside it."""

        self._has_image_notice = self._is_incomplete = self._ends_with_user = False
        self.cards: dict[str, ToolCard] = {}
        self.manual_cards: dict[str, ToolCard] = {}
        self.unsent_manual_cards = UnsentCards()
        self.phase = self._phase_afterwards = ""
        self._heading: SpeakerHeading | None = None
        self._model_label = ""
        self._finished_before_heading: tuple[float, str] = (0.0, "")
        """The cost and the time of responses without text, whose tool calls are shown under a later heading."""

        self._user_message: TranscriptBlock | None = None
        self._unanswered_notice: NoticeBlock | None = None
        self._end_of_message: TranscriptBlock | None = None
        """The last block of the user's message: the message itself, or its last image."""

        self._retry_notice: NoticeBlock | None = None
        self._summarizing_notice = SummarizingNotice(transcript)
        self.event_handlers: dict[type[events.AnyEvent], Callable[[Any], None]] = {
            events.TurnStarted: self._handle_turn_started,
            events.UserMessageAdded: self._handle_user_message,
            events.RoundStarted: self._handle_round_started,
            events.TextDeltaEvent: self._handle_text,
            events.ThinkingDeltaEvent: self._handle_thinking,
            events.ServersAwaited: self._handle_awaited,
            events.ModelRetrying: self._handle_retry,
            events.MessageFinished: self._handle_message_finished,
            events.ToolProposed: self._handle_tool_proposed,
            events.ToolStarted: self._handle_tool_started,
            events.ToolProgress: self._handle_tool_progress,
            events.ToolFinished: self._handle_tool_finished,
            events.ToolBackgrounded: self._handle_backgrounded,
            events.BackgroundResultAdded: self._handle_background_result,
            events.MessagesInserted: self._handle_inserted,
            events.ResultReviewed: self._handle_result_reviewed,
            events.TurnFinished: self._handle_turn_finished,
            events.NoticeEvent: self._handle_notice,
            events.ResourceChanged: self._handle_resource_changed,
            events.SummaryProgress: self._handle_summary_progress,
            events.CompactionChanged: self._handle_compaction,
        }
        """The handlers of the conversation's events, keyed by event type."""
        self._change_notices = ResourceChangeNotices(transcript)
        self._resource_messages: list[UserMessage] = []
        self._outdated: frozenset[tuple[str, str]] = frozenset()

    def load(
        self,
        messages: Sequence[Message],
        on_part: Callable[[Sequence[Message]], object] = lambda part: None,
        timed: "Sequence[TimedBlock]" = (),
        note: str = "",
    ) -> None:
        """Replace the transcript's content with a stored conversation.

        The newest messages are shown immediately; earlier ones are added in the background. The blocks in *timed* are
        placed among the messages according to their time. *on_part* is called with each part of the messages, the
        newest part first. *note* is shown below the messages until the next turn.
        """
        from mcphost.tui.transcript.opened_conversation import NEWEST_MESSAGES, EarlierMessages, TimedBlocks, find_part

        self.cards.clear()
        self._resource_messages.clear()
        self._heading, place = None, TimedBlocks(timed)

        def build(part: Sequence[Message], splitter: TextSplitter) -> list[TranscriptBlock]:
            on_part(part)
            is_first = not part or part[0] is messages[0]
            return self._build(part, place.take(part, is_first=is_first), splitter)

        start = find_part(messages, len(messages), NEWEST_MESSAGES)
        splitter = TextSplitter()
        blocks = build(messages[start:], splitter)
        sent = [block for block in blocks if isinstance(block, UserMessage | BackgroundResult)]
        self._user_message = sent[-1] if sent else None
        self._ends_with_user = bool(messages) and messages[-1].is_typed
        unanswered = build_unanswered_notice(messages, keys_in_use(self.transcript).fill)
        self._unanswered_notice = NoticeBlock("info", note) if note else unanswered
        blocks += [self._unanswered_notice] if self._unanswered_notice is not None else []
        self.transcript.load(blocks, splitter.unfinished)
        if start:
            self.transcript.earlier = EarlierMessages(self.transcript, messages, start, build)
            self.transcript.earlier.start()

    def _build(
        self, messages: Sequence[Message], timed: "Iterable[TimedBlock]", splitter: TextSplitter
    ) -> list[TranscriptBlock]:
        blocks = build_blocks(
            messages,
            lambda: not self._images_unsupported_reason(),
            show_costs=self.show_costs,
            timed=timed,
            splitter=splitter,
        )
        self.manual_cards.update(
            {block.call: block for block in blocks if isinstance(block, ToolCard) and block.state == "background"}
        )
        self._note_resources(blocks)
        return blocks

    def show_outdated(self, keys: frozenset[tuple[str, str]]) -> None:
        """Mark the attached resources in *keys*, which are (server, URI) pairs, as changed since they were sent."""
        self._outdated = keys
        for block in self._resource_messages:
            if block.show_outdated(keys):
                self.transcript.update_block(block)

    def _note_resources(self, blocks: Iterable[TranscriptBlock]) -> None:
        for block in blocks:
            if isinstance(block, UserMessage) and any(block.resources):
                block.show_outdated(self._outdated)
                self._resource_messages.append(block)

    def add_notice(self, level: str, text: str, hint: str = "") -> None:
        """Append a notice from mcphost; *level* is "info", "warning" or "error"."""
        self.transcript.add(NoticeBlock(level, translate_sentence(text), translate_sentence(hint)))

    def add_manual_call(self, card: ToolCard) -> None:
        """Append the card of a tool call that the user typed, before the call is sent."""
        self.unsent_manual_cards.add(card)
        card.find_seconds = self.find_seconds
        self.transcript.is_following = True
        self.transcript.add(card)

    def fail_manual_call(self, card: ToolCard, outcome: str, text: str) -> None:
        """Show on the card of a tool call typed by the user that the call has failed.

        *text* gives the reason and a hint. *outcome* is a key of `tool_card.STATES`.
        """
        card.finish(outcome, text, card.seconds)
        self.transcript.update_block(card)

    def mark_waiting_calls(self, calls: set[str], *, is_turn_asked: bool, is_summary_asked: bool) -> None:
        """Mark the cards of the tool calls that are waiting for the user's approval, and unmark all others.

        *calls* are the ids of the waiting calls. *is_summary_asked* is true if a question about a summary is open, and
        *is_turn_asked* if any other question about the turn is open, for example about the cost of a request.

        While such a call or question is waiting, `phase` is "waiting for you". Questions about the turn count only
        during a turn.
        """
        waiting = _("waiting for you")
        if calls or is_summary_asked or (is_turn_asked and self.phase):
            if self.phase != waiting:
                self._phase_afterwards = _("running tools") if calls else self.phase
            self.phase = waiting
        elif self.phase == waiting:
            self.phase = self._phase_afterwards
        for card in self.cards.values():
            state = "waiting" if card.call in calls else "proposed"
            # A running call waits again if its approval ended before it was sent.
            can_change = card.state in {"waiting", "proposed"} or (card.state, state) == ("running", "waiting")
            if can_change and card.state != state:
                card.state = state
                self.transcript.update_block(card)

    # -- events

    def _ensure_speaker(self) -> None:
        if self._heading is None:
            cost, at = self._finished_before_heading
            self._heading = SpeakerHeading(_("Assistant"), self._model_label, at)
            self._heading.cost = cost
            self._finished_before_heading = (0.0, "")
            self.transcript.add(self._heading)

    def _handle_turn_started(self, event: events.TurnStarted) -> None:
        self._heading, self._finished_before_heading = None, (0.0, "")
        self._change_notices.start_turn()
        self.transcript.is_following = True
        self._retry_notice, self._is_incomplete = None, False
        if self._unanswered_notice is not None:
            self.transcript.remove_block(self._unanswered_notice)
            self._unanswered_notice = None
        if not event.again or self._user_message is None:
            if event.message.late_result is None or not event.again:
                self._add_user_message(event.message)
            else:
                self._user_message = self._end_of_message = build_user_message(event.message)
        self.phase = _("asking the model")

    def _handle_user_message(self, event: events.UserMessageAdded) -> None:
        self.transcript.close_tail()
        self._heading = None
        self._add_user_message(event.message)

    def _add_user_message(self, message: Message) -> None:
        """Append a user message and, if the terminal can show images, its attached images."""
        self._user_message, self._ends_with_user = build_user_message(message), message.is_typed
        self._end_of_message = self._add_with_images(self._user_message, message)

    def _add_with_images(self, block: TranscriptBlock, message: Message) -> TranscriptBlock:
        blocks = [block]
        if (images := attached_images(message)) and not self._images_unsupported_reason():
            blocks += build_image_cards(images)
        self._note_resources(blocks)
        for one in blocks:
            self.transcript.add(one)
        return blocks[-1]

    def _handle_round_started(self, event: events.RoundStarted) -> None:
        self._model_label = event.label or event.model
        self.phase = _("waiting for the model")

    def _handle_text(self, event: events.TextDeltaEvent) -> None:
        if not event.text:
            return
        self._ensure_speaker()
        self.phase = _("answering")
        self.transcript.stream(event.text)

    def _handle_thinking(self, event: events.ThinkingDeltaEvent) -> None:
        if not event.text:
            return
        self._ensure_speaker()
        self.phase = _("thinking")
        self.transcript.stream(event.text, thinking=True)

    def _handle_awaited(self, event: events.ServersAwaited) -> None:
        others = len(event.servers) - 1
        self.phase = _("starting {servers}{text}").format(
            servers=event.servers[0][:30], text=_(" and {others} more").format(others=others) if others else ""
        )

    def _handle_retry(self, event: events.ModelRetrying) -> None:
        self.phase = _("retrying in {seconds:.0f} s").format(seconds=event.seconds)
        told = _("{reason} Retrying in {seconds:.0f} s (attempt {attempt}).").format(
            reason=translate_sentence(event.reason), seconds=event.seconds, attempt=event.attempt
        )
        if self._retry_notice is not None and self._retry_notice is self.transcript.blocks[-1]:
            self._retry_notice.text = told
            self.transcript.update_block(self._retry_notice)
        else:
            self._retry_notice = NoticeBlock("warning", told)
            self.transcript.add(self._retry_notice)

    def _handle_message_finished(self, event: events.MessageFinished) -> None:
        self.transcript.close_tail()
        self._is_incomplete, self._ends_with_user = event.message.cut, False
        cost, at = (event.usage.cost or 0.0) if self.show_costs else 0.0, format_time(event.message.at)
        if self._heading is not None:
            self._heading.cost += cost
            self._heading.time = self._heading.time or at
            self.transcript.update_block(self._heading)
        else:
            earlier_cost, earlier_at = self._finished_before_heading
            self._finished_before_heading = (earlier_cost + cost, earlier_at or at)
        if event.message.cut:
            self.add_notice("warning", _("Incomplete; the text so far is kept."))

    def _find_or_add_card(self, event: Any) -> ToolCard:
        card = self.cards.get(event.call) or self.manual_cards.get(event.call)
        if card is None:
            card = ToolCard(event.call, event.server, getattr(event, "tool", ""), getattr(event, "arguments", {}))
            self.cards[event.call] = card
            self.transcript.add(card)
        return card

    def _handle_tool_proposed(self, event: events.ToolProposed) -> None:
        self._ensure_speaker()
        card = ToolCard(event.call, event.server, event.tool, event.arguments, event.raw)
        self.cards[event.call] = card
        self.transcript.add(card)

    def _handle_tool_started(self, event: events.ToolStarted) -> None:
        if event.by == "user" and event.call not in self.cards:
            self._start_manual_call(event)
            return
        if event.by in ("earlier", "page"):  # not part of a turn, so it is handled like a manual call
            card = self.manual_cards[event.call] = ToolCard(event.call, event.server, event.tool, event.arguments)
            card.start(event.arguments, event.by)
            self.transcript.add(card)
            return
        card = self._find_or_add_card(event)
        card.find_seconds = self.find_seconds
        card.start(event.arguments, event.by)
        self._phase_afterwards = _("running tools")
        self.phase = self.phase if self.phase == _("waiting for you") else self._phase_afterwards
        self.transcript.update_block(card)

    def _start_manual_call(self, event: events.ToolStarted) -> None:
        card = self.unsent_manual_cards.pop(event.call, None)
        if card is None:
            card = ToolCard(event.call, event.server, event.tool, event.arguments)
        if card.is_running and card.arguments != event.arguments:  # a hook changed them
            card.start(event.arguments, event.by)
            self.transcript.update_block(card)
        self.manual_cards[event.call] = card

    def _handle_tool_progress(self, event: events.ToolProgress) -> None:
        card = self.cards.get(event.call) or self.manual_cards.get(event.call)
        if card is not None:
            card.progress = (event.progress, event.total, event.message)
            if not is_reader(self.transcript):
                self.transcript.update_block(card)

    def _handle_tool_finished(self, event: events.ToolFinished) -> None:
        cards = self.manual_cards if event.call in self.manual_cards else self.unsent_manual_cards
        if (own := cards.pop(event.call, None)) is not None:
            # A call that failed before it was sent already has the reason and a hint.
            if own.is_running or own.state == "background":
                own.finish(event.outcome, event.text, event.seconds, event.stored_file)
                self.transcript.update_block(own)
                self._show_images(own, event.images)
            return
        card = self._find_or_add_card(event)
        card.reused_from = format_time(event.reused_at)
        card.finish(event.outcome, event.text, event.seconds, event.stored_file, event.arguments)
        self.transcript.update_block(card)
        self._show_images(card, event.images)

    def _handle_backgrounded(self, event: events.ToolBackgrounded) -> None:
        """Mark a call as running in the background, and keep updating its card after the turn ends."""
        card = self.cards.pop(event.call, None)
        if card is not None:
            card.state = "background"
            self.manual_cards[event.call] = card
            self.transcript.update_block(card)

    def _handle_background_result(self, event: events.BackgroundResultAdded) -> None:
        self.transcript.close_tail()
        self._ends_with_user, self._heading = False, None
        self._add_with_images(build_user_message(event.message), event.message)

    def _handle_inserted(self, event: events.MessagesInserted) -> None:
        self.transcript.close_tail()
        self._ends_with_user = False
        self._heading = None
        splitter = TextSplitter()
        for message in event.messages:
            count = len(splitter.unfinished)
            if message.role == "user":
                self._add_user_message(message)
            else:
                blocks = build_inserted_answer(message, splitter)
                self.transcript.add_all(blocks, splitter.unfinished[count:])

    def _images_unsupported_reason(self) -> str:
        from mcphost.tui.image_cache import images_unsupported_reason

        return images_unsupported_reason(self.transcript.app)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    def _show_images(self, card: ToolCard, images: Iterable[ImagePart]) -> None:
        """Show the images of a tool result below its card.

        If the terminal cannot show images, add a notice instead; later images do not cause another notice.
        """
        blocks = build_image_cards(images)
        why = self._images_unsupported_reason() if blocks else ""
        if not why:
            self.transcript.insert(card, blocks)
        elif not self._has_image_notice:
            self._has_image_notice = True
            self.add_notice("info", _("Images are listed by name, not shown."), why)

    def _handle_result_reviewed(self, event: events.ResultReviewed) -> None:
        card = self._find_or_add_card(event)
        card.review_outcome, card.result_file = event.outcome, event.stored_file
        card.invalidate()
        self.transcript.update_block(card)

    def _handle_turn_finished(self, event: events.TurnFinished) -> None:
        self.transcript.close_tail()
        self.phase = ""
        for card in self.cards.values():
            if card.state in {"proposed", "waiting", "running"}:
                card.finish("stopped", "", 0)
                self.transcript.update_block(card)
        self.cards.clear()
        if event.outcome in {"failed", "rounds", "budget"} or self._is_incomplete:
            fill, is_cut, can_edit = keys_in_use(self.transcript).fill, self._is_incomplete, self._ends_with_user
            if (notice := build_ending_notice(event, fill, is_incomplete=is_cut, can_edit=can_edit)) is not None:
                self.transcript.add(notice)
                self._unanswered_notice = notice if notice.level == "info" else None
        elif self.transcript.blocks and self.transcript.blocks[-1] is self._end_of_message:
            # An empty turn without a notice would look like a crash.
            self.add_notice("info", _("Stopped.") if event.outcome == "stopped" else _("The model's answer is empty."))

    def _handle_notice(self, event: events.NoticeEvent) -> None:
        self.add_notice(event.level, event.text, event.hint)

    def _handle_summary_progress(self, event: events.SummaryProgress) -> None:
        self._phase_afterwards = ""
        if event.planned or self.phase != _("waiting for you"):
            self.phase = _("summarizing") if event.planned else ""
        self._summarizing_notice.show(event)

    def _handle_compaction(self, event: events.CompactionChanged) -> None:
        self.transcript.add(build_compaction_notice(event.messages, event.sentences, event.unknown))

    def _handle_resource_changed(self, event: events.ResourceChanged) -> None:
        """Add a notice that a subscribed resource, or a resource below its URI, has changed.

        If this turn already has a notice about the same resource, update that notice instead.
        """
        keys = filter(None, (key for block in self._resource_messages for key in block.resources))
        self._change_notices.show(event, UriIndex(uri for server, uri in keys if server == event.server))
