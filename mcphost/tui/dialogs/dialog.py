"""Dialog[A]: says who asks and on whose behalf, starts on refusing, answers once, refuses on escape."""

from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from mcphost.host.questions import Question
from mcphost.tui.sanitize import clean_line

A = TypeVar("A")
# Keys typed for something else must not answer a question that opened under them.
DEAF_SECONDS = 0.3
_FRAME_ROWS = 10  # border, padding, "more lines", buttons, keys, and a row of the chat above and below


class Dialog(ModalScreen[A], Generic[A]):
    """One question. It ends by `dismiss(answer)` only; clicking outside does nothing."""

    CSS_PATH = None
    DEFAULT_CSS = """
    Dialog { align: center middle; background: $background 45%; }
    Dialog #box {
        width: 95%; max-width: 104; height: auto; max-height: 100%; background: $panel; border: round $warning;
        border-title-color: $warning; border-title-style: bold; border-subtitle-color: $muted; padding: 1 2 0 2;
    }
    Dialog #why { height: auto; color: $muted; margin-bottom: 1; }
    Dialog #body { height: auto; max-height: 1fr; background: $panel; scrollbar-size-vertical: 1; }
    Dialog #body Static { height: auto; }
    Dialog #more { height: 1; color: $warning; text-align: right; }
    Dialog #extra { height: auto; display: none; margin-top: 1; }
    Dialog #extra.shown { display: block; }
    Dialog #buttons { height: auto; margin: 1 0 0 0; }
    Dialog Button { min-width: 6; margin: 0 1 0 0; height: 1; border: none; padding: 0; background: $surface;
                    color: $text; text-style: none; }
    Dialog Button:focus { background: $accent; color: $background; text-style: bold; }
    Dialog Button.refuse { color: $error; }
    Dialog Button.refuse:focus { background: $error; color: $background; }
    Dialog #keys { height: auto; color: $faint; text-align: right; margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "refuse", show=False),
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("up", "line(-1)", show=False),
        Binding("down", "line(1)", show=False),
    ]
    # (id, label, classes); the first one refuses and has the focus.
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "No"),)
    KEYS: ClassVar[str] = "esc no"

    def __init__(self, question: Question[A]) -> None:
        super().__init__()
        self.question = question
        self._opened = 0.0
        self._queue = (1, 1)
        self._keys = self.KEYS

    @property
    def is_deaf(self) -> bool:
        """Whether keys and clicks are still ignored: the question was not yet on the screen for 300 ms."""
        return not self._opened or monotonic() - self._opened < DEAF_SECONDS

    # -- what a kind of question fills in

    def headline(self) -> str:
        """The title: who wants what; clean."""
        raise NotImplementedError

    def body(self) -> list[Content]:
        """What there is to know before answering, complete; clean."""
        raise NotImplementedError

    def extra(self) -> ComposeResult:
        """Inputs that open on request."""
        yield from ()

    # -- the frame

    def compose(self) -> ComposeResult:
        with Vertical(id="box") as box:
            box.border_title = ""
            yield Static(clean_line(self.question.why, 400), id="why", markup=False)
            with VerticalScroll(id="body", can_focus=True):
                for content in self.body():
                    yield Static(content, markup=False)
            yield Static("", id="more", markup=False)
            with Vertical(id="extra"):
                yield from self.extra()
            with Horizontal(id="buttons"):
                for number, (ident, label) in enumerate(self.BUTTONS):
                    yield Button(Content(label), id=ident, classes="" if number else "refuse", compact=True)
            yield Static(self.KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Focus on refusing; deaf until it was on the screen for a moment."""
        box = self.query_one("#box")
        box.border_title = Content(clean_line(self.headline(), 120))
        self.show_queue(*self._queue)
        if not self.question.why:
            self.query_one("#why").display = False
        self.query_one(f"#{self.BUTTONS[0][0]}").focus()
        self.watch(self.query_one("#body"), "scroll_y", self._show_rest, init=False)
        self.fit()
        self.call_after_refresh(self._on_screen)

    def _on_screen(self) -> None:
        self._opened = monotonic()
        self._show_rest()

    def on_resize(self, event: events.Resize) -> None:
        """How much remains to read depends on the size."""
        del event
        self.fit()

    def fit(self) -> None:
        """Whatever there is to read, the buttons stay in view: the body takes the rows that are left."""
        width = max(20, min(104, self.size.width * 19 // 20) - 6)
        taken = _FRAME_ROWS + (len(self.question.why) // width + 2 if self.question.why else 0)
        taken += (len(self._keys) - 1) // width
        taken += sum(child.outer_size.height or 1 for child in self.query("#extra.shown > *") if child.display)
        taken += 1 if self.query("#extra.shown") else 0
        self.query_one("#body").styles.max_height = max(3, self.size.height - taken)
        self.call_after_refresh(self._show_rest)

    def _show_rest(self) -> None:
        body = self.query_one("#body")
        rest = round(body.max_scroll_y - body.scroll_y)
        self.query_one("#more", Static).update(
            Content(f"↓ {rest} more line{'s' if rest != 1 else ''} to read (down, page down)") if rest > 0 else ""
        )

    def show_keys(self, text: str) -> None:
        """The keys that work now."""
        self._keys = text
        self.query_one("#keys", Static).update(text)

    def show_queue(self, place: int, total: int) -> None:
        """Say how many questions wait."""
        self._queue = (place, total)
        if self.is_attached:
            self.query_one("#box").border_subtitle = f"{place} of {total} waiting" if total > 1 else None

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


def rows(pairs: list[tuple[str, str]], style: str = "$text") -> Content:
    """Keys and values, one pair a row, values complete and already clean."""
    width = min(24, max((len(key) for key, _ in pairs), default=0))
    return Content("\n").join(
        Content.assemble((f"{key:<{width}}  ", "$muted"), (value.replace("\n", "\n" + " " * (width + 2)), style))
        for key, value in pairs
    )


AnyDialog = Dialog[Any]
