"""Main screen: the top bar, the transcript beside the server list, the composer and the key bar."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, cast, get_args

from textual import events as ui
from textual.app import ComposeResult

from mcphost.errors import McpHostError
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.chat.file_completion import FileCompletion
from mcphost.tui.chat.manual_calls import ManualCallRunner
from mcphost.tui.chat.missing_model import describe_missing_model, find_reason
from mcphost.tui.chat.model_switches import ModelSwitches
from mcphost.tui.commands import build_completions
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.message_queue import MessageQueue, QueuedMessage
from mcphost.tui.screen_reader import is_reader, update_seconds
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.attachments import Attachments, AttachmentScreen
from mcphost.tui.transcript.blocks import UserMessage
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widget_messages import QueueRecallRequested, ScrollRequested
from mcphost.tui.widgets.completion_popup import CompletionItem
from mcphost.tui.widgets.composer import HORIZONTAL_MARGIN, ROOMY_HEIGHT, Composer, ComposerInput
from mcphost.tui.widgets.draft import Draft, join_drafts
from mcphost.tui.widgets.laid_out_once import FlexRow
from mcphost.tui.widgets.server_list import ServerList
from mcphost.tui.widgets.status_bars import TRANSCRIPT_KEYS, AutoApprovalBar, KeyBar, TopBar, TopBarStatus
from mcphost.tui.widgets.styled_on_mount import StyledOnce

if TYPE_CHECKING:
    from mcphost.host.event_bus import EventDispatcher
    from mcphost.host.events import AutoApprovalChanged, ConversationOpened, ModelChanged, ServerState
    from mcphost.host.host import Host
    from mcphost.host.questions.frontend import Question
    from mcphost.host.questions.questions import ApproveTool, ReviewResult
    from mcphost.llm.messages import Part
    from mcphost.tui.chat.server_notices import ServerNotices
    from mcphost.tui.chat.status import ChatStatus
    from mcphost.tui.screens.custom_commands import CustomCommandRunner
    from mcphost.tui.screens.setup import SetupChoice
    from mcphost.tui.screens.unsent_texts import DraftSaver, PendingEdit
    from mcphost.tui.slash_commands import CommandValueSource, SlashCommandRunner
    from mcphost.tui.transcript.presenter import TranscriptPresenter

SIDEBAR_MIN_WIDTH = 100
_MAX_RECALLED = 2_000  # number of messages searched for the composer's history
SENT_WHEN_READY = N_("sent when mcphost is ready")
WELCOME = N_("Ask anything. Tools run only if you allowed them. {help} shows all keys, {quit} quits.")
SENT_AS_MESSAGE = N_("Sent as a message, because it was not typed. Type a call or a command to run it.")
PARTLY_TYPED = N_(
    "Nothing was run or sent, because part of it was not typed. Start with a space to send it as a message."
)


class ChatBody(FlexRow):
    """Container that places the transcript and the server list side by side."""

    BLANK = True


class ChatScreen(StyledOnce, AttachmentScreen):
    """Main screen, which shows the conversation and handles entered messages, commands and tool calls."""

    AUTO_FOCUS = "#prompt"
    BLANK = True  # Its widgets cover it, so it need not render anything itself.
    DEFAULT_CSS = """
    ChatScreen { background: $background; color: $text; layout: vertical; }
    ChatScreen #middle { height: 1fr; }
    ChatScreen Transcript { width: 1fr; height: 1fr; margin: 0 0 1 0; }
    ChatScreen ServerList { display: none; margin: 0; }
    ChatScreen.sidebar ServerList { display: block; }
    """
    BINDINGS: ClassVar[list[Any]] = []

    server_notices: "ServerNotices"
    presenter: "TranscriptPresenter"
    """The presenter that shows the conversation in the transcript; set when the host is attached."""
    status: "ChatStatus"
    manual_calls: ManualCallRunner
    custom_commands: "CustomCommandRunner"
    slash_commands: "SlashCommandRunner"

    def __init__(self, *, greeting: str = "", demo: bool = False) -> None:
        super().__init__()
        self._host: Host | None = None
        self._early_drafts: list[Draft] = []
        self._pending_messages: list[UserMessage] = []
        self.greeting = greeting
        self.demo = demo
        self.attachments = Attachments(self)
        self.queue = MessageQueue()
        self.model_switches = ModelSwitches(self._finish_model_switch)
        self.drafts: DraftSaver | None = None  # None until a host is attached
        self.pending_edit: PendingEdit | None = None
        self.sidebar_preference: bool | None = None
        self.pending_question_count = 0
        self._is_status_stale = self._has_timed_state = self.is_sending = False

    def compose(self) -> ComposeResult:
        """Create the top bar, the server list, the transcript, the composer and the key bar."""
        # Done before the first layout, so that the first frame need not be drawn twice.
        self._update_sidebar(self.app.size.width, update=False)  # pyright: ignore[reportUnknownMemberType]
        yield TopBar()
        yield AutoApprovalBar()
        with ChatBody(id="middle"):
            yield ServerList()
            yield Transcript(id="transcript")
        width, height = self.app.size  # pyright: ignore[reportUnknownMemberType]
        yield Composer(roomy=height >= ROOMY_HEIGHT, width=width - HORIZONTAL_MARGIN)
        yield KeyBar()

    def on_mount(self) -> None:
        """Connect the composer to this screen, and show the initial status in the top bar.

        The host may still be starting.
        """
        composer = self.query_one(Composer)
        composer.popup.source, composer.submit_handler = self.list_completions, self.submit
        self.query_one(TopBar).status = TopBarStatus(demo=self.demo, model_state="")

    @property
    def host(self) -> "Host":
        """The attached host. Raises RuntimeError while mcphost is still starting."""
        if self._host is None:
            raise RuntimeError("mcphost is still starting.")
        return self._host

    @property
    def composer_input(self) -> ComposerInput:
        """The text area in which the user writes a message."""
        return self.query_one(ComposerInput)

    def attach_host(self, host: "Host", command_values: "Callable[[], CommandValueSource]") -> None:
        """Connect the screen to the running host, and show the conversation or a greeting.

        Then submit what the user entered while mcphost was starting. *command_values* returns the object that completes
        and runs slash commands followed by a value, such as `/theme fjord`.
        """
        from mcphost.tui.chat.double_escape import DoubleEscape
        from mcphost.tui.chat.server_notices import ServerNotices
        from mcphost.tui.chat.status import ChatStatus
        from mcphost.tui.screens.custom_commands import CustomCommandRunner
        from mcphost.tui.screens.unsent_texts import DraftSaver
        from mcphost.tui.slash_commands import SlashCommandRunner
        from mcphost.tui.transcript.presenter import TranscriptPresenter

        self._host = host
        show_costs = host.settings.budget.show_in_answers
        self.presenter = TranscriptPresenter(self.query_one(Transcript), show_costs=show_costs)
        self.presenter.find_seconds = host.running_calls.find_seconds
        self.server_notices = ServerNotices(self.presenter.add_notice, lambda: self.presenter.transcript.blocks)
        self.status = ChatStatus()
        self.custom_commands = CustomCommandRunner(
            self, host, lambda name: command_values().use_model(name), self.send_draft
        )
        self.slash_commands = SlashCommandRunner(self, host, self.custom_commands.run_line, command_values)
        self.manual_calls = ManualCallRunner(self, host, self.presenter)
        self.attachments.connect(host, self.presenter)
        double_escape, popup = DoubleEscape(self.composer_input, self._is_escape_used), self.query_one(Composer).popup
        self.query_one(Composer).key_handler = double_escape.press
        popup.file_search = FileCompletion(self, popup, host).search
        self.set_interval(update_seconds(self, 1.0), self._tick)
        self._show_greeting()
        self.refresh_status()
        self._submit_early_drafts()
        self.drafts = DraftSaver(self, host, self.queue, self.attachments, self.restore)
        self.drafts.start()

    def _is_escape_used(self) -> bool:
        is_used = self.is_answering or self.manual_calls.is_running or self.pending_question_count or self.pending_edit
        return bool(is_used or not self.host.conversation.messages)

    def _show_greeting(self) -> None:
        self.status.model_state = "none" if self.host.model_selection.model is None else "loading"
        if self.host.conversation.messages or self.host.conversation.manual_calls:
            self.load_conversation()
        else:
            if self.greeting:
                self.presenter.add_notice("info", self.greeting)
            if self.host.model_selection.model is None:
                setup = self.host.setup  # accessed only here, because it imports the search for other configurations
                is_reported = bool(find_reason(self.host))  # the host's notice gives the reason
                if not is_reported and (setup is None or not setup.is_first_run):  # otherwise, the setup screen opens
                    self.explain_missing_model()
            elif not self.greeting:
                self.presenter.add_notice("info", keys_in_use(self).fill(_(WELCOME)))

    def _submit_early_drafts(self) -> None:
        """Submit the first draft entered during startup, and return the remaining ones to the composer."""
        early, self._early_drafts = self._early_drafts, []
        pending, self._pending_messages = self._pending_messages, []
        transcript = self.query_one(Transcript)
        for words in pending:
            transcript.remove_block(words)
        if early:
            composer = self.query_one(Composer)
            written = composer.draft
            composer.set_draft(early[0])
            self.submit(early[0])
            composer.set_draft(join_drafts(composer.draft, *early[1:], written))
            if self.is_sending:  # shown as a placeholder until the turn starts
                self._pending_messages = pending[:1]
                transcript.add(pending[0])

    def _remove_pending_messages(self) -> None:
        """Remove from the transcript the placeholders for messages that the user entered during startup."""
        for words in self._pending_messages:
            self.query_one(Transcript).remove_block(words)
        self._pending_messages.clear()

    def load_conversation(self) -> None:
        """Show the current conversation in the transcript; load its token usage and the composer's history."""
        from mcphost.tui.chat.timed_blocks import build_timed_blocks
        from mcphost.tui.image_cache import images_unsupported_reason

        messages = self.host.conversation.messages
        self.status.reset()
        draws_images = not images_unsupported_reason(self.app)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        timed = build_timed_blocks(self.host.conversation, draws_images=draws_images)
        pending = self.pending_edit
        is_editing = pending is not None and pending.matches(self.host.conversation.id, len(messages))
        self.presenter.load(messages, self.status.add_earlier, timed, pending.notice if pending and is_editing else "")
        self.run_worker(self._load_spending, group="spending", exclusive=True)
        self.query_one(Composer).load_history(
            [message.text for message in messages[-_MAX_RECALLED:] if message.is_typed and message.text]
        )
        self.query_one(Composer).composer_input.focus()

    async def _load_spending(self) -> None:
        await self.status.load_spending(self.host)
        self.refresh_status()
        await self.query_one(Transcript).wait_loaded()
        self.refresh_status()

    # -- host events

    def add_event_handlers(self, dispatcher: "EventDispatcher") -> None:
        """Register handlers for host events that change the chat. Call `attach_host` first."""
        from mcphost.host import events
        from mcphost.tui.chat.page_events import PageEvents

        dispatcher.add(self._handle_turn_started, events.TurnStarted)
        dispatcher.add_all(self.presenter.event_handlers)
        dispatcher.add_all(self.status.event_handlers)
        dispatcher.add_all(self.attachments.event_handlers)
        dispatcher.add_all(PageEvents(self, self.host, self.presenter).event_handlers)
        dispatcher.add(self._handle_user_message, events.UserMessageAdded)
        dispatcher.add(self._handle_model_changed, events.ModelChanged)
        dispatcher.add(self._handle_conversation_opened, events.ConversationOpened)
        dispatcher.add(self._report_server_state, events.ServerState)
        dispatcher.add(self.query_one(Composer).popup.search_again, events.CatalogChanged)
        dispatcher.add(self._handle_auto_approval, events.AutoApprovalChanged)
        frequent = (events.TextDeltaEvent, events.ThinkingDeltaEvent, events.ToolProgress)
        for event_type in get_args(events.AnyEvent):
            if event_type not in frequent:
                dispatcher.add(self._handle_any_event, event_type)

    def _handle_turn_started(self, _event: object) -> None:
        if self._pending_messages:
            self._remove_pending_messages()

    def _handle_model_changed(self, event: "ModelChanged") -> None:
        if event.state == "failed":
            self.presenter.add_notice(
                "error", event.detail or _("The model {label} does not work.").format(label=event.label)
            )

    def _handle_conversation_opened(self, event: "ConversationOpened") -> None:
        self.load_conversation()
        if self.drafts is not None:
            self.drafts.handle_opened(event.id)

    def _handle_auto_approval(self, event: "AutoApprovalChanged") -> None:
        if not event.on and event.why != "started again":
            self.presenter.add_notice(
                "info", _("Auto-approve ended; tools ask again: {why}.").format(why=translate_sentence(event.why))
            )

    def _handle_any_event(self, _event: object) -> None:
        self.refresh_status()

    def _report_server_state(self, event: "ServerState") -> None:
        self.server_notices.report(event, keys_in_use(self))

    def show_pending_questions(self, questions: "tuple[Question[Any], ...]") -> None:
        """Show the number of pending questions, such as consent prompts, in the top bar.

        In the transcript, mark the tool calls that the questions are about.
        """
        from mcphost.host.questions import kinds

        self.pending_question_count = len(questions)
        about_calls = [one for one in questions if one.KIND in (kinds.APPROVE_TOOL, kinds.REVIEW_RESULT)]
        calls = {cast("ApproveTool | ReviewResult", one).call for one in about_calls}
        asked = {question.KIND for question in questions}
        is_summary_asked = bool(asked & {kinds.OFFER_COMPACTION, kinds.REVIEW_COMPACTION})
        is_turn_asked = bool(asked & kinds.ASKED_DURING_TURNS)
        self.presenter.mark_waiting_calls(calls, is_turn_asked=is_turn_asked, is_summary_asked=is_summary_asked)
        self.refresh_status()

    def refresh_status(self) -> None:
        """Schedule an update of the top bar and the server list in 30 ms, unless one is already scheduled."""
        if not self._is_status_stale:
            self._is_status_stale = True
            self.set_timer(0.03, self._show_status)

    def _tick(self) -> None:
        is_busy = self.host.conversation.is_busy or self.query_one(KeyBar).can_stop
        if is_busy or self._has_timed_state or self.query_one(AutoApprovalBar).state is not None:
            self.refresh_status()

    def _show_status(self) -> None:
        from mcphost.tui.chat.status import build_server_row, has_expiring_sign_in, has_unread_servers

        self._is_status_stale = False
        self.query_one(AutoApprovalBar).state = self.host.auto_approval_status
        self.query_one(KeyBar).can_stop = self.host.conversation.is_busy or self.manual_calls.is_running
        views = self.host.servers.views()
        self._has_timed_state = any(has_expiring_sign_in(view) or view.starting_seconds for view in views)
        self.query_one(TopBar).status = self.status.build_status(
            self.host, views, phase=self.presenter.phase, pending_questions=self.pending_question_count, demo=self.demo
        )
        rows = tuple(build_server_row(view) for view in views)
        is_unreadable = has_unread_servers(self.host)
        self.query_one(ServerList).show(rows, len(self.host.running_calls), is_unreadable=is_unreadable)

    # -- user input

    def submit(self, draft: Draft) -> None:
        """Send the draft as a message, or run it as a command or tool call; on failure, it stays in the composer.

        A built-in command or tool call runs only if the user typed all of its text. If all of the text was inserted,
        for example by pasting, the draft is sent as a message. If only a part of it was typed, the draft is neither run
        nor sent. Until the host is attached, drafts are queued.
        """
        if self._host is None:
            self._early_drafts.append(draft)
            self._pending_messages.append(UserMessage(draft.text, time=_(SENT_WHEN_READY)))
            self.query_one(Transcript).add(self._pending_messages[-1])
            self.query_one(Composer).mark_sent()
            return
        written = draft.text
        is_typed = draft.origin == "typed"
        may_run = draft.origin != "inserted"
        if may_run and not is_typed and (draft.is_call or draft.is_command):
            self.notify(_(PARTLY_TYPED), markup=False, timeout=8)
        elif may_run and written.startswith("/") and self.slash_commands.run(draft, self._list_command_names):
            pass
        elif is_typed and draft.is_call:
            if self.manual_calls.run_line(written):
                self.query_one(Composer).mark_sent()
        elif self.host.model_selection.model is None:
            self._offer_model(written)
        elif self.model_switches.needs_confirmation:
            self.model_switches.needs_confirmation = False
            text = _("The model was not switched. Press Enter again to send the message to {model}.")
            model = clean_line(self.host.model_selection.config.name, 60)
            self.notify(text.format(model=model), markup=False, timeout=8)
        elif self.is_answering and self.queue.is_full:
            self.notify(_("Too many messages are waiting. Press Esc to stop the answer."), markup=False, timeout=4)
        else:
            self.query_one(Composer).mark_sent()
            if draft.is_call or draft.is_command:
                self.notify(_(SENT_AS_MESSAGE), markup=False, timeout=8)
            is_switching = self.model_switches.is_active
            self.queue.add(QueuedMessage(draft, self.attachments.take_all(), is_for_new_model=is_switching))
            if is_switching and not self.is_turn_active:
                self.notify(_("The message is sent as soon as the model is switched."), markup=False, timeout=4)
            if not self.is_answering:
                self.run_worker(_preload_markdown, thread=True, group="warm-up")
                self.is_sending = True
                self.run_worker(self._send_waiting, group="turn")
            self._show_queue()

    def _offer_model(self, text: str) -> None:
        """If *text* is a URL, open the form for a model at this URL; otherwise, explain how to choose a model."""
        from mcphost.tui.screens.model_use import offer_address

        if not offer_address(self, text):
            self.explain_missing_model()

    def send_draft(self, draft: Draft) -> None:
        """Send *draft* as the user's message; the unsent text in the composer is kept.

        If *draft* cannot be sent, it is inserted before the unsent text.
        """
        composer = self.query_one(Composer)
        written = composer.draft
        composer.set_draft(draft)
        self.submit(draft)
        composer.set_draft(join_drafts(composer.draft, written))

    @property
    def is_answering(self) -> bool:
        """Whether new messages must wait, because a turn or a switch to another model is in progress.

        A turn is in progress if it is running or about to start.
        """
        return self.is_turn_active or self.model_switches.is_active

    @property
    def is_turn_active(self) -> bool:
        """Whether a turn is running or about to start."""
        return self.host.conversation.is_busy or self.is_sending

    def finish_turn(self, outcome: str) -> None:
        """Send the next queued message if *outcome* is "done"; otherwise, move all queued messages to the composer.

        If a switch to another model is in progress, nothing is sent until `_finish_model_switch` is called.
        """
        if outcome != "done":
            self.restore(*self.queue.take_all())
        elif self.queue and not self.model_switches.is_active:
            self.is_sending = True  # from here on, so that nothing else is sent before the worker runs
            self.run_worker(self._send_waiting, group="turn")

    def _finish_model_switch(self, has_switched: bool) -> None:
        """Send the messages that were waiting for the model switch, or return them to the composer if it failed.

        If a turn is active, nothing is sent yet. If the switch fails during a turn, only the messages written since the
        switch began are returned to the composer; the user must then confirm the next message before it is sent,
        because it may have been intended for the model that could not be used.
        """
        self.model_switches.needs_confirmation = not has_switched and self.is_turn_active
        if self.is_attached and not self.is_turn_active:
            self.finish_turn("done" if has_switched else "failed")
        elif self.is_attached and not has_switched:
            self.restore(*self.queue.take_for_new_model())

    def restore(self, draft: Draft, attachments: "Iterable[Part]") -> None:
        """Insert *draft* before the composer's text, and add *attachments* to those of the next message."""
        if not self.is_attached:
            return  # the program is about to end
        composer = self.query_one(Composer)
        if draft.text:
            composer.restore_draft(draft)
        self.attachments.add(*attachments)
        self._show_queue()

    def _show_queue(self) -> None:
        self.query_one(Composer).show_queue(self.queue.describe())

    def on_queue_recall_requested(self, message: QueueRecallRequested) -> None:
        """Move a queued message back into the composer or, if the user wants to remove it, discard it."""
        if (taken := self.queue.take(message.place)) is not None and not message.is_removal:
            self.restore(taken.draft, taken.attachments)
        self._show_queue()

    def on_steer_requested(self) -> None:
        """Add the composer's text to the running turn or, if the composer is empty, the oldest queued message.

        The model receives the message together with the next tool results.
        """
        composer, count = self.query_one(Composer), len(self.queue)
        is_written = bool(composer.draft.text.strip())
        composer.submit()
        if not is_written or len(self.queue) > count:
            self.queue.steer(self.attachments.steer, newest=is_written)
        self._show_queue()

    def _handle_user_message(self, _event: object) -> None:
        self.queue.mark_delivered()
        self._show_queue()

    def _list_command_names(self) -> "Iterable[str]":
        return (offer.title for offer in self.list_completions("/"))

    async def _send_waiting(self) -> None:
        outcome = "done"
        self.is_sending = False
        while outcome == "done" and not self.model_switches.is_active:
            if (message := self.queue.take_next()) is None:
                break
            self.is_sending = True
            self._show_queue()
            outcome = "failed"
            try:
                parts = message.attachments
                if "@" in message.draft.text:
                    parts = await self.attachments.add_mentioned(message.draft, parts)
                outcome = (await self.host.conversation.send(message.draft.text, parts)).outcome
            except McpHostError as error:
                self._remove_pending_messages()
                self.restore(message.draft, message.attachments)
                self.presenter.add_notice("error", error.message, error.hint)
            finally:
                self.is_sending = False
        self.finish_turn(outcome)
        self.refresh_status()

    def explain_missing_model(self) -> None:
        """If no model is selected, add a notice that states the reason or explains how to choose a model."""
        if self.host.model_selection.model is None:
            text, hint = describe_missing_model(self.host)
            self.presenter.add_notice("warning", text, keys_in_use(self).fill(hint))

    def open_model_form(self) -> None:
        """Open the form in which the user enters a model's API URL; on cancel, explain how to choose a model."""
        from mcphost.tui.screens.model_use import open_address_form

        open_address_form(self, on_leave=self.explain_missing_model)

    async def apply_setup(self, choice: "SetupChoice") -> None:
        """Save and use the chosen model, add the chosen servers, and report the result in the transcript."""
        setup = self.host.setup
        if setup is None:
            return
        result = await setup.apply(choice.model, choice.servers, choice.seen)
        done = [_("Using {model}.").format(model=result.model)] if result.model else []
        done += [_("Added: {servers}.").format(servers=join_list(result.servers))] if result.servers else []
        if done:
            self.presenter.add_notice("info", " ".join(done))
        for problem in result.problems:
            self.presenter.add_notice("error", problem)
        self.refresh_status()

    def continue_turn(self) -> None:
        """Ask the model to continue an answer that was cut off, or to answer an unanswered message."""
        if self.is_answering:
            self.notify(_("Still answering. Press Esc to stop."), markup=False, timeout=4)
        else:
            self.run_worker(self._continue_turn, group="turn")

    async def _continue_turn(self) -> None:
        try:
            self.finish_turn((await self.host.conversation.continue_turn()).outcome)
        except McpHostError as error:
            self.notify(str(error), markup=False, timeout=4)
        self.refresh_status()

    def on_scroll_requested(self, message: ScrollRequested) -> None:
        """Scroll the transcript by the requested number of pages; the composer keeps the focus."""
        message.stop()
        transcript = self.query_one(Transcript)
        transcript.scroll_relative(y=message.pages * max(1, transcript.size.height - 1), animate=False)

    def attach_result(self) -> None:
        """Attach the result of the user's latest manual tool call to the next message."""
        self.manual_calls.attach_result(self.attachments.add)

    def list_completions(self, kind: str) -> list[CompletionItem]:
        """Return the completions for *kind*: "/", "@", "!" or a command such as "/theme".

        "/" completes commands and prompts, "@" completes resources and templates, and "!" completes tools. For a
        command, the values that it accepts are returned. Until the host is attached, only commands can be completed.
        """
        is_value = len(kind) > 1
        if self._host is None:
            return [] if is_value else build_completions(kind, ())
        if is_value:
            return self.slash_commands.complete_value(kind)
        own = self.custom_commands.completions() if kind == "/" else []
        names = {offer.title for offer in own}
        built_in = build_completions(kind, self._host.servers.views())
        return [*(offer for offer in built_in if offer.kind != "alias" or offer.title not in names), *own]

    def on_descendant_focus(self, event: ui.DescendantFocus) -> None:
        """Show the transcript's keys in the key bar if the transcript has the focus, otherwise the usual keys."""
        self.query_one(KeyBar).show(TRANSCRIPT_KEYS if isinstance(event.widget, Transcript) else ())

    def action_focus_message(self) -> None:
        """Move the focus from the transcript back to the composer."""
        self.set_focus(self.composer_input)

    def on_key(self, event: ui.Key) -> None:
        """Focus the composer and insert the character if the user types while the transcript has the focus."""
        known = event.key in self.active_bindings
        if self.query_one("#transcript").has_focus and event.is_printable and event.character and not known:
            event.stop()
            self.set_focus(self.composer_input)
            self.composer_input.insert(event.character)

    # -- layout

    def on_resize(self, event: ui.Resize) -> None:
        """Show the server list if the screen is at least 100 columns wide.

        The width is ignored once the user has shown or hidden the list. It is also ignored in screen reader mode, in
        which the list is hidden by default.
        """
        self._update_sidebar(event.size.width)

    def _update_sidebar(self, width: int, *, update: bool = True) -> None:
        # A screen reader reads whole rows, so a second column would interrupt sentences.
        shown = width >= SIDEBAR_MIN_WIDTH and not is_reader(self)
        visible = shown if self.sidebar_preference is None else self.sidebar_preference
        self.set_class(visible, "sidebar", update=update)

    def toggle_sidebar(self) -> None:
        """Show or hide the server list; its visibility no longer depends on the width of the screen."""
        self.sidebar_preference = self.toggle_class("sidebar").has_class("sidebar")


def _preload_markdown() -> None:
    """Import the Markdown modules before the first answer; call this in a thread to keep the app responsive."""
    from mcphost.tui.transcript.markdown import warm_up

    warm_up()
