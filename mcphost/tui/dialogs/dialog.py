"""Dialog[A]: says who asks and on whose behalf, starts on refusing, answers once, refuses on escape."""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Generic, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Input, Static, TextArea

from mcphost.host.questions.questions import Question
from mcphost.serialization import replace
from mcphost.tui.answer_guard import AnswerGuard
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.form import Form
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.wrapping_row import WrappingRow, wrap_key_hints

A = TypeVar("A")
ENTER_HINT = "F8 or tab to answer with a key"
_POLL_SECONDS = 0.03
_FRAME_ROWS = 9  # border, padding, "more lines", keys, and a row of the chat above and below
_SPACING_ROWS = 3  # of these; where rows are dear, the body gets them
_SHORT_HEIGHT = 30


class Dialog(ScreenLifecycle, ModalScreen[A], Generic[A]):
    """One question. It ends by `dismiss(answer)` only; clicking outside does nothing."""

    CSS_PATH = None
    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 45%; }
    Dialog #box {
        width: 95%; max-width: 104; height: auto; max-height: 100%; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; border-subtitle-color: $muted; padding: 1 2 0 2;
    }
    Dialog #why { height: auto; color: $muted; margin-bottom: 1; }
    Dialog #why.changed { color: $warning; }
    Dialog #body { height: auto; max-height: 1fr; background: $panel; scrollbar-size-vertical: 1; }
    Dialog #body Static { height: auto; }
    Dialog #more { height: 1; color: $warning; text-align: right; }
    Dialog #more.insists { text-style: bold reverse; }
    Dialog #extra { height: auto; display: none; margin-top: 1; }
    Dialog #extra.shown { display: block; }
    Dialog #buttons { height: auto; margin: 1 0 0 0; }
    Dialog Button { min-width: 6; margin: 0 1 0 0; height: 1; border: none; padding: 0; background: $surface;
                    color: $text; text-style: none; }
    Dialog Button.locked { color: $faint; }
    Dialog Button:focus { background: $accent; color: $background; text-style: bold; }
    Dialog Button.refuse { color: $error; }
    Dialog Button.refuse:focus { background: $error; color: $background; }
    Dialog #keys { height: auto; color: $faint; text-align: right; margin-top: 1; text-opacity: 0%; }
    Dialog.short #box { padding: 0 2; }
    Dialog.short #buttons, Dialog.short #keys, Dialog.short LabeledInput { margin: 0; }
    Dialog.short #extra { margin: 0 0 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("up", "line(-1)", show=False),
        Binding("down", "line(1)", show=False),
        Binding("home", "edge(-1)", show=False),
        Binding("end", "edge(1)", show=False),
    ]
    # (id, label, classes); the first one refuses and has the focus.
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "No"),)
    KEYS: ClassVar[str] = "esc no"
    # What it is dismissed with when the user decides about something else first.
    POSTPONED: ClassVar[object] = object()
    # What it is dismissed with when the person goes on typing elsewhere: it waits beside that.
    MINIMIZED: ClassVar[object] = object()
    # Whether the frame names the account that the server is used with; a body that does so itself says False.
    SHOW_ACCOUNT: ClassVar[bool] = True
    # Actions that open a line to type into. Their keys have `priority`, and they set the focus at once: whatever was
    # typed right after such a key is meant for the line, and must not reach the keys that answer.
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset()
    # Whether a title that is too long is repeated whole below; a body that has the names in it says False.
    REPEAT_LONG_TITLE: ClassVar[bool] = True
    # The buttons that agree: they answer only after what they agree to was on the screen to its end.
    APPROVING: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, question: Question[A]) -> None:
        super().__init__()
        self.question = question
        self.is_read = not self.APPROVING
        self.guard = AnswerGuard()
        self._body_version = 0
        """How many texts were shown before the one that is to be agreed to now."""
        self.is_follow_up = False
        self._queue_position = (1, 1)
        self._key_hints = self.KEYS

    @property
    def is_guarded(self) -> bool:
        """Whether keys and clicks are still ignored: the question was not yet on the screen for 300 ms."""
        return self.guard.is_new()

    @property
    def is_field_focused(self) -> bool:
        """Whether a key goes into a field, where it is text."""
        focused = self.focused
        if focused is None or isinstance(focused, Input | TextArea):
            return focused is not None
        return any(isinstance(node, Form) for node in focused.ancestors)

    def enter(self) -> None:
        """The person entered the question: its keys work from now on."""
        self.guard.is_entered = True
        if self.is_mounted:
            self.show_key_hints(self._key_hints)
            self.fit()
            self._update_key_hint_opacity()

    def has_binding(self, key: str) -> bool:
        """Whether a key does something here."""
        return key in self._bindings.key_to_bindings

    def contains_point(self, x: int, y: int) -> bool:
        """Whether this place of the screen is inside of the frame."""
        return any(box.region.contains(x, y) for box in self.query("#box"))

    def card_texts(self) -> tuple[str, tuple[str, ...], str]:
        """What is said of it while it waits beside a message that is being written: see QuestionCard."""
        place, total = self._queue_position
        lines = (clean_line(self.preview(), 400), clean_line(self.question.why, 400))
        return clean_line(self.headline(), 400), lines, f"{place} of {total} waiting" if total > 1 else ""

    async def process_key(self, key: str) -> bool:
        """Do what a key does here, if it is one that waits for nobody else; whether it was.

        On the buttons and the text every key acts before the next one is handed on: what was typed right after one that
        opens a line is for the line, and reaches neither the button nor the keys that answer.
        """
        focused, app = self.focused, cast("Any", self).app
        on_button = isinstance(focused, Button) and getattr(focused.parent, "id", None) == "buttons"
        if focused is None or not (on_button or focused.id == "body"):
            return False
        if key == "enter" and on_button:
            return bool(await app.run_action(str(focused.id), self))
        return bool(await app._check_bindings(key, priority=True) or await app._check_bindings(key))

    # -- what a kind of question fills in

    def headline(self) -> str:
        """The title: who wants what; clean."""
        raise NotImplementedError

    def preview(self) -> str:
        """What the question is about, in a line, while it waits beside a message that is being written."""
        return ""

    def body(self) -> Sequence[Content | Widget]:
        """What there is to know before answering, complete; clean."""
        raise NotImplementedError

    def last_required_row(self) -> int:
        """The row of the body up to which it must have been shown before anything is agreed to.

        The last row of the part with the id `sent`, below which a server's own words may come; without one, the last.
        """
        sent = self.query("#sent")
        if sent and sent.first().virtual_region.height:  # 0 until it is laid out: nothing of it was seen then
            return sent.first().virtual_region.bottom
        return self.query_one("#body").virtual_size.height

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In an open line the key that opened it is a letter like any other."""
        if action in self.INPUT_ACTIONS and self.query("#extra.shown"):
            return False
        return super().check_action(action, parameters)

    def disabled_reason(self, ident: str) -> str:
        """Why this button cannot be chosen now, in a few words; empty when it can."""
        return self._unread_message() if ident in self.APPROVING and not self.is_read else ""

    def key_hints(self) -> str:
        """The keys that do something while no input is open."""
        return self.KEYS

    def compose_extra(self) -> ComposeResult:
        """Inputs that open on request."""
        yield from ()

    def open_extra(self, first: str, key_hints: str) -> None:
        """Show the inputs. What is typed from this moment on goes to that one; `keys` work there."""
        self.query_one("#extra").add_class("shown")
        self.set_focus(self.query_one(f"#{first}"))
        self.show_key_hints(key_hints)
        self.call_after_refresh(self.fit)

    def close_extra(self) -> bool:
        """Go back to the buttons, forgetting what was typed unseen; False when no input was open."""
        extra = self.query_one("#extra")
        if not extra.has_class("shown"):
            return False
        extra.remove_class("shown")
        self.query_one("#more").remove_class("insists")
        for line in extra.query(Input):
            if line.password:
                line.value = ""
        self.focus_first()
        self.show_key_hints(self.key_hints())
        self.fit()
        return True

    # -- the frame

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = ""
            yield Static(self._requester_text(), id="why", markup=False)
            with VerticalScroll(id="body", can_focus=True):
                yield from self._body_widgets()
            yield Static("", id="more", markup=False)
            with Vertical(id="extra"):
                yield from self.compose_extra()
            with WrappingRow(id="buttons"):
                for number, (ident, label) in enumerate(self.BUTTONS):
                    yield Button(Content(label), id=ident, classes="" if number else "refuse", compact=True)
            yield Static(self.KEYS, id="keys", markup=False)

    def _requester_text(self) -> str:
        """Who wants what where the title has no room for it, on whose behalf, and with which account."""
        title = clean_line(self.headline(), 400)
        whole = title if self.REPEAT_LONG_TITLE and Content(title).cell_length > self._width - 2 else ""
        account = clean_line(self.question.account, 100) if self.SHOW_ACCOUNT else ""
        asker = " · ".join(filter(None, (clean_line(self.question.why, 400), account and f"account {account}")))
        return "\n".join(filter(None, (whole, asker)))

    def _body_widgets(self) -> Iterator[Widget]:
        for piece in self.body():
            yield Static(piece, markup=False) if isinstance(piece, Content) else piece

    async def show_body(self) -> None:
        """Show what is now to be agreed to: to be read anew, and deaf for a moment like a new question."""
        self.is_read = not self.APPROVING
        self._body_version += 1
        self.guard.hide()
        self.query_one("#keys").styles.text_opacity = 0.0
        body = self.query_one("#body")
        await body.remove_children()
        await body.mount(*self._body_widgets())
        body.scroll_to(y=0, animate=False)
        self.fit()
        self.call_after_refresh(self._mark_shown, self._body_version)

    def on_mount(self) -> None:
        """Focus on refusing; deaf until it was on the screen for a moment."""
        box = self.query_one("#box")
        box.border_title = Content(clean_line(self.headline(), 120))
        self.show_queue_position(*self._queue_position)
        self.focus_first()
        self.watch(self.query_one("#body"), "scroll_y", self._update_remaining, init=False)
        self.fit()
        self.call_after_refresh(self._mark_shown, self._body_version)

    def focus_first(self) -> None:
        """Where the focus starts: on refusing."""
        self.query_one(f"#{self.BUTTONS[0][0]}").focus()

    def _mark_shown(self, version: int) -> None:
        if version != self._body_version:
            return  # another text is being put in its place, and none of that is laid out yet
        self.guard.show()
        self._update_remaining()
        self._update_key_hint_opacity()

    def _update_key_hint_opacity(self) -> None:
        """The line of keys is there from the moment they work, so that it can be seen when they do."""
        if not self.guard.is_shown or not self.is_open:
            return  # None while it is being shown anew
        deaf = self.guard.is_blocking(0.0, is_letter=True)  # asked once: a moment later it may be over
        # Not by its visibility: that would lay out the whole question once more, however long it is.
        self.query_one("#keys").styles.text_opacity = 0.0 if deaf else 1.0
        if deaf:
            self.set_timer(_POLL_SECONDS, self._update_key_hint_opacity)

    def on_resize(self, event: events.Resize) -> None:
        """How much remains to read depends on the size."""
        del event
        self.fit()

    @property
    def _width(self) -> int:
        return max(20, min(104, self.size.width * 19 // 20) - 6)

    def fit(self) -> None:
        """Whatever there is to read, the buttons stay in view: the body takes the rows that are left."""
        if not self.is_open:
            return
        width = self._width
        short = self.size.height < _SHORT_HEIGHT
        self.set_class(short, "short")
        keys = wrap_key_hints(self._visible_key_hints, width)
        self.query_one("#keys", Static).update("\n".join(keys))
        taken = _FRAME_ROWS - (_SPACING_ROWS if short else 0) + self._button_rows(width) + len(keys) - 1
        asker, why = self._requester_text(), self.query_one("#why", Static)
        why.update(asker)
        why.display = bool(asker)
        taken += 1 + len(Content(asker).wrap(width)) if asker else 0
        for child in self.query("#extra.shown > *"):
            taken += (child.outer_size.height or 1) + child.styles.margin.height if child.display else 0
        taken += 1 if self.query("#extra.shown") else 0
        self.query_one("#body").styles.max_height = max(3, self.size.height - taken)
        self.call_after_refresh(self._handle_layout)

    def _button_rows(self, width: int) -> int:
        rows, used = 1, 0
        for button in self.query("#buttons Button").results(Button):
            if button.display:
                cells = max(6, len(str(button.label)) + 2)
                rows, used = (rows + 1, 0) if used and used + cells > width else (rows, used)
                used += cells + 1
        return rows

    def _count_unread_rows(self) -> int:
        body = self.query_one("#body")
        return max(0, round(self.last_required_row() - body.scroll_y - body.size.height))

    def _unread_message(self) -> str:
        rows = self._count_unread_rows()
        return f"read to the end first: {rows} more line{'s' if rows != 1 else ''}"

    def _handle_layout(self) -> None:
        # What was said against the last key stays said until another one is pressed, however late this comes.
        if self.query_one("#more").has_class("insists"):
            self._update_read_state()
        else:
            self._update_remaining()

    def _update_read_state(self) -> None:
        body = self.query_one("#body")
        laid_out = self.guard.is_shown and body.size.height > 0 and body.virtual_size.height > 0
        if not self.is_read and laid_out and not self._count_unread_rows():
            self.is_read = True
        self.update_locked_buttons()

    def _update_remaining(self) -> None:
        if not self.is_open:
            return
        self._update_read_state()
        body = self.query_one("#body")
        rest = round(body.max_scroll_y - body.scroll_y)
        text = f"↓ {rest} more line{'s' if rest != 1 else ''} to read (down, page down)" if rest > 0 else ""
        if not self.is_read and self.query_one("#buttons").display:
            text = f"↓ {self._unread_message()} (page down, end)"
        more = self.query_one("#more", Static)
        more.remove_class("insists")
        more.update(Content(text or self.reminder()))

    def reminder(self) -> str:
        """What is still to be done before agreeing, when all of the body was read; clean."""
        return ""

    def update_locked_buttons(self) -> None:
        """Show which buttons cannot be chosen now."""
        for button in self.query("#buttons Button"):
            button.set_class(bool(self.disabled_reason(button.id or "")), "locked")

    def approve(self, ident: str, answer: A) -> None:
        """Give the answer of this button; while it is withheld, say why instead."""
        why = self.disabled_reason(ident)
        if why:
            self.show_hint(why)
        else:
            self.dismiss(answer)

    def show_hint(self, why: str) -> None:
        """Say, where it is seen, why what was chosen or typed is not taken."""
        # None until it is composed.
        for more in self.query("#more").results(Static):
            more.add_class("insists")
            more.update(Content(clean_line(why, 400)))

    def restore_review(self, review: Any) -> Any:
        """Go on with what an earlier dialog of the same question kept; what is to be kept for a later one."""
        return review

    def set_list_available(self, *, is_available: bool) -> None:
        """Whether there is a list of waiting calls to go back to."""

    def show_key_hints(self, text: str) -> None:
        """The keys that work now."""
        self._key_hints = text
        self.query_one("#keys", Static).update("\n".join(wrap_key_hints(self._visible_key_hints, self._width)))

    @property
    def _visible_key_hints(self) -> str:
        return self._key_hints if self.guard.is_entered else f"{ENTER_HINT} · {self._key_hints}"

    def update_reason(self, why: str) -> None:
        """It asks for another reason now; said where it is seen."""
        self.question = replace(self.question, why=why)
        # None until it is composed, which says the new one.
        for line in self.query("#why").results(Static):
            line.add_class("changed")
            line.update(Content(self._requester_text()))
            self.fit()

    def show_queue_position(self, place: int, total: int) -> None:
        """Say how many questions wait."""
        self._queue_position = (place, total)
        # None until it is composed, which is a moment after it is attached; mounting shows it then.
        for box in self.query("#box"):
            box.border_subtitle = f"{place} of {total} waiting" if total > 1 else None

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """A button is the action of its id."""
        event.stop()
        self.call_later(self.run_action, str(event.button.id))

    def action_refuse(self) -> None:
        """The refusal of this question."""
        self.dismiss(self.question.refusal())

    def action_page(self, by: int) -> None:
        """Read on."""
        body = self.query_one("#body")
        body.scroll_relative(y=by * max(1, body.size.height - 1), animate=False)

    def action_line(self, by: int) -> None:
        """Read on by a line."""
        self.query_one("#body").scroll_relative(y=by, animate=False)

    def action_edge(self, which: int) -> None:
        """To the end of what there is to read, or back to its beginning."""
        body = self.query_one("#body")
        body.scroll_to(y=body.max_scroll_y if which > 0 else 0, animate=False)


AnyDialog = Dialog[Any]
