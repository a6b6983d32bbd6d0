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
from mcphost.tui.widgets.screen_lifecycle import Presence
from mcphost.tui.widgets.wrapping_row import Flow, key_rows

A = TypeVar("A")
ENTER_KEYS = "F8 or tab to answer with a key"
_LOOK_SECONDS = 0.03
_FRAME_ROWS = 9  # border, padding, "more lines", keys, and a row of the chat above and below
_AIR_ROWS = 3  # of these; where rows are dear, the body gets them
_SHORT = 30


class Dialog(Presence, ModalScreen[A], Generic[A]):
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
    Dialog.short #buttons, Dialog.short #keys, Dialog.short Line { margin: 0; }
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
    LATER: ClassVar[object] = object()
    # What it is dismissed with when the person goes on typing elsewhere: it waits beside that.
    ASIDE: ClassVar[object] = object()
    # Whether the frame names the account that the server is used with; a body that does so itself says False.
    NAMES_ACCOUNT: ClassVar[bool] = True
    # Actions that open a line to type into. Their keys have `priority`, and they set the focus at once: whatever was
    # typed right after such a key is meant for the line, and must not reach the keys that answer.
    OPENING: ClassVar[frozenset[str]] = frozenset()
    # Whether a title that is too long is repeated whole below; a body that has the names in it says False.
    NAMES_WHOLE: ClassVar[bool] = True
    # The buttons that agree: they answer only after what they agree to was on the screen to its end.
    AGREEING: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, question: Question[A]) -> None:
        super().__init__()
        self.question = question
        self.was_read = not self.AGREEING
        self.guard = AnswerGuard()
        self._showing = 0
        """How many texts were shown before the one that is to be agreed to now."""
        self.follows = False
        self._queue = (1, 1)
        self._keys = self.KEYS

    @property
    def is_deaf(self) -> bool:
        """Whether keys and clicks are still ignored: the question was not yet on the screen for 300 ms."""
        return self.guard.is_new()

    @property
    def in_field(self) -> bool:
        """Whether a key goes into a field, where it is text."""
        focused = self.focused
        if focused is None or isinstance(focused, Input | TextArea):
            return focused is not None
        return any(isinstance(node, Form) for node in focused.ancestors)

    def enter(self) -> None:
        """The person entered the question: its keys work from now on."""
        self.guard.entered = True
        if self.is_mounted:
            self.show_keys(self._keys)
            self.fit()
            self._show_listening()

    def binds(self, key: str) -> bool:
        """Whether a key does something here."""
        return key in self._bindings.key_to_bindings

    def is_on(self, x: int, y: int) -> bool:
        """Whether this place of the screen is inside of the frame."""
        return any(box.region.contains(x, y) for box in self.query("#box"))

    def card(self) -> tuple[str, tuple[str, ...], str]:
        """What is said of it while it waits beside a message that is being written: see QuestionCard."""
        place, total = self._queue
        lines = (clean_line(self.preview(), 400), clean_line(self.question.why, 400))
        return clean_line(self.headline(), 400), lines, f"{place} of {total} waiting" if total > 1 else ""

    async def acts(self, key: str) -> bool:
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

    def end_of_reading(self) -> int:
        """The row of the body up to which it must have been shown before anything is agreed to.

        The last row of the part with the id `sent`, below which a server's own words may come; without one, the last.
        """
        sent = self.query("#sent")
        if sent and sent.first().virtual_region.height:  # 0 until it is laid out: nothing of it was seen then
            return sent.first().virtual_region.bottom
        return self.query_one("#body").virtual_size.height

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In an open line the key that opened it is a letter like any other."""
        if action in self.OPENING and self.query("#extra.shown"):
            return False
        return super().check_action(action, parameters)

    def withheld(self, ident: str) -> str:
        """Why this button cannot be chosen now, in a few words; empty when it can."""
        return self._read_on() if ident in self.AGREEING and not self.was_read else ""

    def keys(self) -> str:
        """The keys that do something while no input is open."""
        return self.KEYS

    def extra(self) -> ComposeResult:
        """Inputs that open on request."""
        yield from ()

    def open_extra(self, first: str, keys: str) -> None:
        """Show the inputs. What is typed from this moment on goes to that one; `keys` work there."""
        self.query_one("#extra").add_class("shown")
        self.set_focus(self.query_one(f"#{first}"))
        self.show_keys(keys)
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
        self.begin()
        self.show_keys(self.keys())
        self.fit()
        return True

    # -- the frame

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = ""
            yield Static(self._asker(), id="why", markup=False)
            with VerticalScroll(id="body", can_focus=True):
                yield from self._body_widgets()
            yield Static("", id="more", markup=False)
            with Vertical(id="extra"):
                yield from self.extra()
            with Flow(id="buttons"):
                for number, (ident, label) in enumerate(self.BUTTONS):
                    yield Button(Content(label), id=ident, classes="" if number else "refuse", compact=True)
            yield Static(self.KEYS, id="keys", markup=False)

    def _asker(self) -> str:
        """Who wants what where the title has no room for it, on whose behalf, and with which account."""
        title = clean_line(self.headline(), 400)
        whole = title if self.NAMES_WHOLE and Content(title).cell_length > self._width - 2 else ""
        account = clean_line(self.question.account, 100) if self.NAMES_ACCOUNT else ""
        asker = " · ".join(filter(None, (clean_line(self.question.why, 400), account and f"account {account}")))
        return "\n".join(filter(None, (whole, asker)))

    def _body_widgets(self) -> Iterator[Widget]:
        for piece in self.body():
            yield Static(piece, markup=False) if isinstance(piece, Content) else piece

    async def show_body(self) -> None:
        """Show what is now to be agreed to: to be read anew, and deaf for a moment like a new question."""
        self.was_read = not self.AGREEING
        self._showing += 1
        self.guard.hide()
        self.query_one("#keys").styles.text_opacity = 0.0
        body = self.query_one("#body")
        await body.remove_children()
        await body.mount(*self._body_widgets())
        body.scroll_to(y=0, animate=False)
        self.fit()
        self.call_after_refresh(self._on_screen, self._showing)

    def on_mount(self) -> None:
        """Focus on refusing; deaf until it was on the screen for a moment."""
        box = self.query_one("#box")
        box.border_title = Content(clean_line(self.headline(), 120))
        self.show_queue(*self._queue)
        self.begin()
        self.watch(self.query_one("#body"), "scroll_y", self._show_rest, init=False)
        self.fit()
        self.call_after_refresh(self._on_screen, self._showing)

    def begin(self) -> None:
        """Where the focus starts: on refusing."""
        self.query_one(f"#{self.BUTTONS[0][0]}").focus()

    def _on_screen(self, showing: int) -> None:
        if showing != self._showing:
            return  # another text is being put in its place, and none of that is laid out yet
        self.guard.show()
        self._show_rest()
        self._show_listening()

    def _show_listening(self) -> None:
        """The line of keys is there from the moment they work, so that it can be seen when they do."""
        if not self.guard.is_shown or not self.is_there:
            return  # None while it is being shown anew
        deaf = self.guard.is_closed(0.0, to_letters=True)  # asked once: a moment later it may be over
        # Not by its visibility: that would lay out the whole question once more, however long it is.
        self.query_one("#keys").styles.text_opacity = 0.0 if deaf else 1.0
        if deaf:
            self.set_timer(_LOOK_SECONDS, self._show_listening)

    def on_resize(self, event: events.Resize) -> None:
        """How much remains to read depends on the size."""
        del event
        self.fit()

    @property
    def _width(self) -> int:
        return max(20, min(104, self.size.width * 19 // 20) - 6)

    def fit(self) -> None:
        """Whatever there is to read, the buttons stay in view: the body takes the rows that are left."""
        if not self.is_there:
            return
        width = self._width
        short = self.size.height < _SHORT
        self.set_class(short, "short")
        keys = key_rows(self._shown_keys, width)
        self.query_one("#keys", Static).update("\n".join(keys))
        taken = _FRAME_ROWS - (_AIR_ROWS if short else 0) + self._button_rows(width) + len(keys) - 1
        asker, why = self._asker(), self.query_one("#why", Static)
        why.update(asker)
        why.display = bool(asker)
        taken += 1 + len(Content(asker).wrap(width)) if asker else 0
        for child in self.query("#extra.shown > *"):
            taken += (child.outer_size.height or 1) + child.styles.margin.height if child.display else 0
        taken += 1 if self.query("#extra.shown") else 0
        self.query_one("#body").styles.max_height = max(3, self.size.height - taken)
        self.call_after_refresh(self._laid_out)

    def _button_rows(self, width: int) -> int:
        rows, used = 1, 0
        for button in self.query("#buttons Button").results(Button):
            if button.display:
                cells = max(6, len(str(button.label)) + 2)
                rows, used = (rows + 1, 0) if used and used + cells > width else (rows, used)
                used += cells + 1
        return rows

    def _rows_to_read(self) -> int:
        body = self.query_one("#body")
        return max(0, round(self.end_of_reading() - body.scroll_y - body.size.height))

    def _read_on(self) -> str:
        rows = self._rows_to_read()
        return f"read to the end first: {rows} more line{'s' if rows != 1 else ''}"

    def _laid_out(self) -> None:
        # What was said against the last key stays said until another one is pressed, however late this comes.
        if self.query_one("#more").has_class("insists"):
            self._show_read()
        else:
            self._show_rest()

    def _show_read(self) -> None:
        body = self.query_one("#body")
        laid_out = self.guard.is_shown and body.size.height > 0 and body.virtual_size.height > 0
        if not self.was_read and laid_out and not self._rows_to_read():
            self.was_read = True
        self.show_locks()

    def _show_rest(self) -> None:
        if not self.is_there:
            return
        self._show_read()
        body = self.query_one("#body")
        rest = round(body.max_scroll_y - body.scroll_y)
        text = f"↓ {rest} more line{'s' if rest != 1 else ''} to read (down, page down)" if rest > 0 else ""
        if not self.was_read and self.query_one("#buttons").display:
            text = f"↓ {self._read_on()} (page down, end)"
        more = self.query_one("#more", Static)
        more.remove_class("insists")
        more.update(Content(text or self.reminder()))

    def reminder(self) -> str:
        """What is still to be done before agreeing, when all of the body was read; clean."""
        return ""

    def show_locks(self) -> None:
        """Show which buttons cannot be chosen now."""
        for button in self.query("#buttons Button"):
            button.set_class(bool(self.withheld(button.id or "")), "locked")

    def agree(self, ident: str, answer: A) -> None:
        """Give the answer of this button; while it is withheld, say why instead."""
        why = self.withheld(ident)
        if why:
            self.insist(why)
        else:
            self.dismiss(answer)

    def insist(self, why: str) -> None:
        """Say, where it is seen, why what was chosen or typed is not taken."""
        # None until it is composed.
        for more in self.query("#more").results(Static):
            more.add_class("insists")
            more.update(Content(clean_line(why, 400)))

    def keep(self, kept: Any) -> Any:
        """Go on with what an earlier dialog of the same question kept; what is to be kept for a later one."""
        return kept

    def offer_list(self, *, several: bool) -> None:
        """Whether there is a list of waiting calls to go back to."""

    def show_keys(self, text: str) -> None:
        """The keys that work now."""
        self._keys = text
        self.query_one("#keys", Static).update("\n".join(key_rows(self._shown_keys, self._width)))

    @property
    def _shown_keys(self) -> str:
        return self._keys if self.guard.entered else f"{ENTER_KEYS} · {self._keys}"

    def say_why(self, why: str) -> None:
        """It asks for another reason now; said where it is seen."""
        self.question = replace(self.question, why=why)
        # None until it is composed, which says the new one.
        for line in self.query("#why").results(Static):
            line.add_class("changed")
            line.update(Content(self._asker()))
            self.fit()

    def show_queue(self, place: int, total: int) -> None:
        """Say how many questions wait."""
        self._queue = (place, total)
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
