"""The main screen: conversation, composer, servers, status."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events as ui
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import Screen

from mcphost.errors import McpHostError
from mcphost.tui.keymap import by_slash
from mcphost.tui.messages import (
    ActionWanted,
    AttachWanted,
    CopyWanted,
    DetachWanted,
    LinkClicked,
    PromptWanted,
    ScrollWanted,
)
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.completions import offers
from mcphost.tui.widgets.auto_approve_bar import AutonomyBar
from mcphost.tui.widgets.blocks import Words
from mcphost.tui.widgets.composer import AROUND, ROOMY, Composer, Offer, Prompt
from mcphost.tui.widgets.draft import Draft, join
from mcphost.tui.widgets.server_list import ServerList
from mcphost.tui.widgets.status_bars import FOOTER_KEYS, KeyBar, Status, TopBar
from mcphost.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from mcphost.host.events import HostEvent, ServerState
    from mcphost.host.host import Host
    from mcphost.host.questions.questions import Question
    from mcphost.llm.messages import Part, ResourcePart
    from mcphost.tui.screens.conversation import Conversation
    from mcphost.tui.screens.status_model import Figures
    from mcphost.tui.widgets.tool_card import ToolCard

WIDE = 100
NOT_YET = "sent when mcphost is ready"
WELCOME = "Say what you want. Before the model uses a tool you are asked. F1 shows all keys, ctrl+q leaves."
NO_MODEL = "No model is chosen yet, so nobody answers."
NO_MODEL_HINT = (
    "Start with --model, for example: mcphost --model anthropic/claude-sonnet-4-5 (its key in ANTHROPIC_API_KEY), or "
    "--model ollama_chat/llama3.2 for a local one. Tools work without a model: type !server/tool key=value."
)
SENT_AS_MESSAGE = "Sent as a message, because it was not typed. Type a call or a command to run it."
PARTLY_TYPED = "Nothing was run or sent: a part of it was not typed. A space before it makes it a message."
READING_KEYS = (
    ("[ ]", "step", ""),
    ("enter", "open", ""),
    ("c", "copy", ""),
    ("↑↓", "scroll", ""),
    ("end", "newest", ""),
    ("esc", "back to the message", "stop"),
)


class Middle(Horizontal):
    """The transcript and the servers beside each other."""

    BLANK = True


class Chat(Screen[None]):
    """Shows what happens, takes what the user says."""

    AUTO_FOCUS = "#prompt"
    BLANK = True  # its widgets cover it, so that it needs no strips of its own for each line
    DEFAULT_CSS = """
    Chat { background: $background; color: $text; layout: vertical; }
    Chat #middle { height: 1fr; }
    Chat Transcript { width: 1fr; height: 1fr; margin: 0 0 1 0; }
    Chat ServerList { display: none; margin: 0; }
    Chat.sidebar ServerList { display: block; }
    """
    BINDINGS: ClassVar[list[Any]] = []

    talk: "Conversation"
    """The conversation, once the host is there."""
    figures: "Figures"

    def __init__(self, *, greeting: str = "", demo: bool = False) -> None:
        super().__init__()
        self._host: Host | None = None
        self._early: list[Draft] = []
        self._pending: list[Words] = []
        self.greeting = greeting
        self.demo = demo
        self.attachments: list[ResourcePart] = []
        self.sidebar_wanted: bool | None = None
        self.waiting = 0
        self._dirty = self._passing = self._is_sending = False
        self._calls = 0
        self._told: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        # Decided before the first layout, so that the first frame is drawn once.
        self._fit(self.app.size.width)  # pyright: ignore[reportUnknownMemberType]
        yield TopBar()
        yield AutonomyBar()
        with Middle(id="middle"):
            yield ServerList()
            yield Transcript(id="transcript")
        size = self.app.size  # pyright: ignore[reportUnknownMemberType]
        yield Composer(roomy=size.height >= ROOMY, width=size.width - AROUND)
        yield KeyBar()

    def on_mount(self) -> None:
        """Everything that needs nothing from outside."""
        composer = self.query_one(Composer)
        composer.offers, composer.submitted = self.offers, self.submit
        self.query_one(TopBar).status = Status(demo=self.demo, model_state="")

    @property
    def host(self) -> "Host":
        """The host; not before it is attached."""
        if self._host is None:
            raise RuntimeError("No host is attached yet.")
        return self._host

    @property
    def prompt(self) -> Prompt:
        """What the person types a message into."""
        return self.query_one(Prompt)

    def begin(self, host: "Host") -> None:
        """The host runs now: show the conversation, say what to do first, submit what was entered before."""
        from mcphost.tui.screens.conversation import Conversation
        from mcphost.tui.screens.status_model import Figures

        self._host = host
        self.talk = Conversation(self.query_one(Transcript))
        self.figures = Figures()
        self.set_interval(1.0, self._tick)
        self._greet()
        self.refresh_status()
        self._submit_early()

    def _greet(self) -> None:
        self.figures.model_state = "none" if self.host.model is None else "loading"
        if self.host.messages:
            self.load()
        else:
            if self.greeting:
                self.talk.notice("info", self.greeting)
            if self.host.model is None:
                self.talk.notice("warning", NO_MODEL, NO_MODEL_HINT)
            elif not self.greeting:
                self.talk.notice("info", WELCOME)

    def _submit_early(self) -> None:
        """Submit what was entered before there was a host; what cannot be sent yet stays in the composer."""
        early, self._early = self._early, []
        pending, self._pending = self._pending, []
        transcript = self.query_one(Transcript)
        for words in pending:
            transcript.remove_block(words)
        if early:
            composer = self.query_one(Composer)
            written = composer.draft
            composer.set_draft(early[0])
            self.submit(early[0])
            composer.set_draft(join(composer.draft, *early[1:], written))
            if self._is_sending:  # shown until the turn begins with it
                self._pending = pending[:1]
                transcript.add(pending[0])

    def _forget_pending(self) -> None:
        """A message that waited is shown as sent, or is in the composer again."""
        for words in self._pending:
            self.query_one(Transcript).remove_block(words)
        self._pending.clear()

    def load(self) -> None:
        """Show the open conversation from its messages."""
        messages = self.host.messages
        self.talk.load(messages)
        self.figures.resume(messages)
        self.query_one(Composer).remember([message.text for message in messages if message.role == "user"])
        self.query_one(Composer).prompt.focus()

    # -- what the host tells

    def handle(self, event: "HostEvent") -> None:
        """One event of the host."""
        from mcphost.host import events

        if self._pending and isinstance(event, events.TurnStarted):
            self._forget_pending()
        self.talk.handle(event)
        self.figures.hear(event)
        if isinstance(event, events.ModelChanged) and event.state == "failed":
            self.talk.notice("error", event.detail or f"The model {event.label} does not work.")
        elif isinstance(event, events.ConversationOpened):
            self.load()
        elif isinstance(event, events.ServerState):
            self._tell_state(event)
        elif isinstance(event, events.AutonomyChanged) and not event.on and event.why != "started anew":
            self.talk.notice("info", f"Tools ask again before they run: {event.why}.")
        if not isinstance(event, events.TextDelta | events.ThinkingDelta | events.ToolProgress):
            self.refresh_status()

    def _tell_state(self, event: "ServerState") -> None:
        """What went wrong with a server, once for all the times it is tried again until it works or is restarted."""
        if event.state in ("ready", "waiting"):
            self._told.pop(event.server, None)
        elif event.state in ("failed", "sign_in"):
            detail = event.detail or "the server failed."
            named = detail if event.server in detail else f"{event.server}: {detail}"
            if self._told.get(event.server) != named:
                self._told[event.server] = named
                key = "s on its page (F3) signs in." if event.state == "sign_in" else ""
                self.talk.notice("error", named, " ".join(filter(None, (key, event.hint))))

    def show_waiting(self, questions: "tuple[Question[Any], ...]") -> None:
        """Which questions wait for the user."""
        from mcphost.host.questions.questions import ApproveTool
        from mcphost.host.questions.result_review_questions import ReviewResult

        self.waiting = len(questions)
        self.talk.mark_waiting(
            {question.call for question in questions if isinstance(question, ApproveTool | ReviewResult)}
        )
        self.refresh_status()

    def refresh_status(self) -> None:
        """Bring the top line and the server list up to date, once however often it is asked for."""
        if not self._dirty:
            self._dirty = True
            self.set_timer(0.03, self._show_status)

    def _tick(self) -> None:
        if self.host.busy or self._passing or self.query_one(AutonomyBar).state is not None:
            self.refresh_status()

    def _show_status(self) -> None:
        from mcphost.tui.screens.status_model import ends, row

        self._dirty = False
        self.query_one(AutonomyBar).state = self.host.running_unasked
        views = self.host.servers()
        self._passing = any(ends(view) or view.starting for view in views)
        self.query_one(TopBar).status = self.figures.status(
            self.host, views, phase=self.talk.phase, waiting=self.waiting, demo=self.demo
        )
        self.query_one(ServerList).show(tuple(row(view) for view in views))

    # -- what the user does

    def submit(self, draft: Draft) -> None:
        """Send, run a command, or call a tool by hand; the text stays when that is not possible.

        Commands and calls are typed: what a server, a paste or an earlier message brought is sent as a message.
        """
        if self._host is None:
            self._early.append(draft)
            self._pending.append(Words(draft.text, at=NOT_YET))
            self.query_one(Transcript).add(self._pending[-1])
            self.query_one(Composer).sent()
            return
        written = draft.text
        is_typed = draft.origin == "typed"
        may_run = draft.origin != "inserted"
        if may_run and not is_typed and (draft.is_call or draft.is_command):
            self.notify(PARTLY_TYPED, markup=False, timeout=8)
        elif is_typed and draft.is_command and (action := by_slash(written[1:].rstrip())):
            self.query_one(Composer).sent()
            self.post_message(ActionWanted(action.name))
        elif may_run and written.startswith("/") and (said := self._mistyped(written.strip())):
            self.notify(said, markup=False, timeout=8)
        elif is_typed and draft.is_call:
            self._by_hand(written)
        elif self.host.model is None:
            self.talk.notice("warning", NO_MODEL, NO_MODEL_HINT)
        elif self.host.busy or self._is_sending:
            self.notify("Still answering. Esc stops it; your text stays here.", markup=False, timeout=4)
        else:
            self.query_one(Composer).sent()
            if draft.is_call or draft.is_command:
                self.notify(SENT_AS_MESSAGE, markup=False, timeout=8)
            attachments, self.attachments = tuple(self.attachments), []
            self._show_attachments()
            self._is_sending = True
            self.run_worker(_warm_up, thread=True, group="warm-up")
            self.run_worker(partial(self._send, written, attachments), group="turn")

    def _mistyped(self, text: str) -> str:
        from mcphost.tui.slash_commands import mistyped

        return mistyped(text, (offer.title for offer in self.offers("/")))

    async def _send(self, text: str, attachments: "Sequence[Part]") -> None:
        try:
            await self.host.send(text, attachments)
        except McpHostError as error:
            self._forget_pending()
            composer = self.query_one(Composer)
            composer.set_draft(join(Draft(text), composer.draft))
            self.talk.notice("error", error.message, error.hint)
        finally:
            self._is_sending = False
        self.refresh_status()

    def go_on(self) -> None:
        """Have an answer that was cut off completed, or the model asked again."""
        if self.host.busy:
            self.notify("Still answering. Esc stops it.", markup=False, timeout=4)
        else:
            self.run_worker(self._go_on, group="turn")

    async def _go_on(self) -> None:
        try:
            await self.host.go_on()
        except McpHostError as error:
            self.notify(f"{error.message} {error.hint}", markup=False, timeout=4)
        self.refresh_status()

    def _by_hand(self, text: str) -> None:
        from mcphost.tui.screens.manual_call import parse
        from mcphost.tui.widgets.tool_card import ToolCard

        try:
            call = parse(text)
        except McpHostError as error:
            self.talk.notice("warning", error.message, error.hint)
            return
        self.query_one(Composer).sent()
        card = ToolCard("", call.server, call.tool, call.arguments)
        card.start(call.arguments, "user")
        self.talk.call_by_hand(card)
        self.run_worker(partial(self._call, card), group="hand")

    def stop_by_hand(self) -> bool:
        """Stop the calls made by hand; False when none runs."""
        running = self._calls > 0
        self.workers.cancel_group(self, "hand")  # pyright: ignore[reportUnknownMemberType]
        return running

    async def _call(self, card: "ToolCard") -> None:
        self._calls += 1
        try:
            await self.host.call_tool(card.server, card.tool, card.arguments or {})
        except McpHostError as error:
            self.talk.fail_by_hand(card, "failed", str(error))
        except asyncio.CancelledError:
            self.talk.fail_by_hand(card, "stopped", "")
            raise
        finally:
            self._calls -= 1

    def on_scroll_wanted(self, message: ScrollWanted) -> None:
        """Page up and down while the message is written."""
        message.stop()
        transcript = self.query_one(Transcript)
        transcript.scroll_relative(y=message.pages * max(1, transcript.size.height - 1), animate=False)

    def on_attach_wanted(self, message: AttachWanted) -> None:
        """@ chose a resource."""
        message.stop()
        self.attach(message.server, message.uri)

    def attach(self, server: str, uri: str) -> None:
        """Read a resource and hold it for the next message."""
        self.run_worker(partial(self._read_attachment, server, uri), group="attach")

    async def _read_attachment(self, server: str, uri: str) -> None:
        from mcphost.llm.messages import ResourcePart

        try:
            result = await self.host.read_resource(server, uri)
        except McpHostError as error:
            self.talk.notice("error", error.message, error.hint)
            return
        for entry in result.contents:
            text = entry.text if entry.text is not None else f"[{entry.mime_type or 'binary'}, not text]"
            self.attachments.append(ResourcePart(server, entry.uri, text, entry.mime_type or ""))
        self._show_attachments()

    def on_detach_wanted(self, message: DetachWanted) -> None:
        """Backspace took the newest attachment away."""
        message.stop()
        if self.attachments:
            self.attachments.pop()
            self._show_attachments()

    def _show_attachments(self) -> None:
        self.query_one(Composer).show_attached(
            tuple(f"{part.server} · {part.uri}  ({len(part.text):,} characters)" for part in self.attachments)
        )

    def on_prompt_wanted(self, message: PromptWanted) -> None:
        """A prompt chosen with /."""
        message.stop()
        for view in self.host.servers():
            for prompt in view.catalog.prompts:
                if (view.name, prompt.name) == (message.server, message.prompt):
                    self.fill_prompt(view.name, prompt)
                    return

    def fill_prompt(self, server: str, prompt: Any) -> None:
        """Ask for its arguments, then put its text into the composer."""
        from mcphost.tui.screens.prompts import PromptForm

        form = PromptForm(self.host, server, prompt)

        def filled(text: str | None) -> None:
            self.insert(server, text)

        self.app.push_screen(form, filled)  # pyright: ignore[reportUnknownMemberType]

    def insert(self, server: str, text: str | None) -> None:
        """Put a text of this server into the composer."""
        composer = self.query_one(Composer)
        if text:
            composer.insert_from(server, text)
        composer.prompt.focus()

    def on_link_clicked(self, message: LinkClicked) -> None:
        """Show where a link leads; it is copied, never opened."""
        message.stop()
        self.post_message(CopyWanted(message.url))
        self.notify(clean_line(message.url, 600), title="Link, not opened", markup=False, timeout=8)

    def offers(self, kind: str) -> list[Offer]:
        """What the composer's popups hold."""
        return offers(kind, self._host.servers() if self._host is not None else ())

    def on_descendant_focus(self, event: ui.DescendantFocus) -> None:
        """Show the keys of the place that has the focus."""
        self.query_one(KeyBar).show(READING_KEYS if isinstance(event.widget, Transcript) else FOOTER_KEYS)

    def on_key(self, event: ui.Key) -> None:
        """A letter that means nothing in the conversation is the beginning of a message."""
        known = event.key in self.active_bindings
        if self.query_one("#transcript").has_focus and event.is_printable and event.character and not known:
            event.stop()
            prompt = self.query_one(Composer).prompt
            self.set_focus(prompt)
            prompt.insert(event.character)

    # -- layout

    def on_resize(self, event: ui.Resize) -> None:
        """The sidebar is there where there is room, or where the user wants it."""
        self._fit(event.size.width)

    def _fit(self, width: int) -> None:
        self.set_class(width >= WIDE if self.sidebar_wanted is None else self.sidebar_wanted, "sidebar")

    def toggle_sidebar(self) -> None:
        """Show or hide the servers."""
        self.sidebar_wanted = not self.has_class("sidebar")
        self.set_class(self.sidebar_wanted, "sidebar")


def _warm_up() -> None:
    """Load what drawing an answer needs, off the path of keys."""
    from mcphost.tui.widgets.markdown import warm_up

    warm_up()
