"""A form: fields one below the other, filled in by keyboard alone, each checked while it is typed and never in the way.

    form = Form(fields, {"age": 30})        # fields of host.questions.form_fields; empty without a value
    form.values()                           # {"age": 30, "note": None}: every field, None where it is left out
    form.complete()                         # whether all of it may be sent; if not, it goes to the first that may not

It tells `Form.Edited` after each change, and `Form.Ended` when enter or an arrow goes on past its last field or back
before its first. It grows with its content; put it into something that scrolls, with a stable scrollbar gutter: a bar
that comes and goes with the width of its own content never rests.
"""

from collections.abc import Mapping
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mcphost.host.questions.form_fields import Field, fault
from mcphost.tui.screen_text import clean, clean_line, is_clean
from mcphost.tui.widgets.field_widgets import NULL, UNREADABLE, Altered, Control, Past, Words, control_for

_LABEL = 40
_HIDDEN = 400
_FORMATS = {"email": "an e-mail address", "uri": "an address with its scheme", "date": "a date, 2026-07-28"}
_FORMATS["date-time"] = "a time with its zone, 2026-07-28T12:00:00Z"


def _cells(text: str) -> int:
    return Content(text).cell_length


def rules(field: Field) -> str:
    """What may stand in a field, in a few words."""
    low, high = (f"{bound:.15g}" if bound is not None else "" for bound in (field.minimum, field.maximum))
    match field.kind:
        case "text":
            kind = _FORMATS.get(field.format, clean_line(field.format, 40))
            words = [kind, _between(field.min_length, field.max_length, "characters")]
            words.append(f"pattern {clean_line(field.pattern, 80)}" if field.pattern else "")
        case "number" | "integer":
            kind = "a whole number" if field.kind == "integer" else "a number"
            words = [f"{kind} from {low} to {high}" if low and high else kind]
            words += [f"at least {low}"] if low and not high else [f"at most {high}"] if high and not low else []
        case "choices":
            words = [_between(field.min_items, field.max_items, "of them")]
        case "json":
            words = ["JSON"]
        case _:
            words = []
    return " · ".join(word for word in words if word)


def _between(low: int | None, high: int | None, what: str) -> str:
    if low and high is not None:
        return f"{low} to {high} {what}" if low != high else f"{low} {what}"
    return f"at least {low} {what}" if low else f"at most {high} {what}" if high is not None else ""


class Row(Vertical):
    """One field: its title, what fills it in, and below that what is to be known or what is wrong."""

    DEFAULT_CSS = """
    Row { height: auto; }
    Row > Horizontal { height: auto; }
    Row .title { height: auto; padding: 0 1 0 0; }
    Row TextArea { width: 1fr; height: auto; min-height: 1; max-height: 6; background: $surface; border: none;
                   padding: 0 1; }
    Row TextArea:focus { background: $background; }
    Row Choose, Row Toggle, Row Kept { width: 1fr; height: auto; padding: 0 1; background: $surface; }
    Row Choose:focus, Row Toggle:focus, Row Kept:focus { background: $background; }
    Row .note { height: auto; display: none; }
    Row .note.shown { display: block; }
    """

    def __init__(self, field: Field, value: Any, width: int, *, named: bool = True) -> None:
        """`width` is for the title until the form knows how much there is, so that no frame is without it.

        `named`: its name is somebody else's, and shown beside another title."""
        super().__init__()
        self.field = field
        self._width = width
        self._named = named
        # A choice that begins with a value cannot be emptied: to call it required would tell nothing.
        self._needed = field.required and not (field.kind == "choice" and value is not None)
        self._title = clean_line(field.title or field.name, 200)
        self.control: Control = control_for(field, value)
        self._label = Static(self._titled(), classes="title", markup=False)
        self._label.styles.width = width
        self._note = Static("", classes="note", markup=False)
        self._note.styles.padding = (0, 0, 0, width + 1)
        self._first = self.value
        self._told = ""
        self._judged = False  # whether a field that is merely empty is called wrong
        self._roomy = False
        self._shown = Content("")

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self._label
            yield self.control
        yield self._note

    def fit(self, width: int) -> None:
        """So many cells are for the title; one that is longer is cut, and whole below the field with the focus."""
        if width == self._width:
            return
        self._width = width
        self._label.update(self._titled())
        self._label.styles.width = width
        self._note.styles.padding = (0, 0, 0, width + 1)
        self.show()

    def _titled(self) -> Content:
        shown = Content.styled(self._title, "$text").truncate(max(1, self._width - 2), ellipsis=True)
        return Content.assemble(shown, ("*", "bold $warning") if self._needed else ("", ""))

    def on_mount(self) -> None:
        """A field that looks like a secret says so from the start."""
        self.show()

    @property
    def value(self) -> Any:
        """What is filled in; None when nothing is."""
        return self.control.value

    @property
    def untouched(self) -> bool:
        """Whether it still holds what it began with."""
        value, first = self.value, self._first
        return type(value) is type(first) and bool(value == first) and (value is NULL) == (first is NULL)

    def tell(self, text: str) -> None:
        """What somebody else found wrong with it; forgotten with the next change. Clean or not."""
        if text != self._told:
            self._told = text
            self.show()

    def problem(self) -> str:
        """What is wrong with it, as words that continue the field's name; empty when nothing is."""
        if self.value is NULL:
            return ""
        return "must be JSON" if self.value is UNREADABLE else fault(self.field, self.value)

    def judge(self) -> bool:
        """From now on being empty counts as well; whether it may be sent."""
        self._judged = True
        self.show()
        return not self.problem()

    def roomy(self, on: bool) -> None:
        """Whether there is room to show what it is about without the focus."""
        if on != self._roomy:
            self._roomy = on
            self.show()

    def show(self) -> None:
        """What is to be known of it now."""
        lines: list[Content] = []
        problem = self.problem()
        if problem and (self._judged or self.value is not None):
            lines.append(Content.styled(f"✗ {clean_line(problem, _HIDDEN)}", "$error"))
        elif self._told:
            lines.append(Content.styled(f"✗ {clean_line(self._told, _HIDDEN)}", "$error"))
        if self.field.secret:
            lines.append(Content.styled("▲ looks like a secret: leave it out", "bold $warning"))
        typed = self.control.text if isinstance(self.control, Words) else ""
        if typed and not is_clean(typed):
            marked = clean_line(typed, _HIDDEN)
            lines.append(Content.styled(f"▲ holds hidden characters: {marked}", "$warning"))
        focused = self.control.has_focus
        if focused and _cells(self._title) > self._width - 2:
            lines.append(Content.styled(self._title, "$text"))
        if self.field.description and (focused or self._roomy):
            lines.append(Content.styled(clean(self.field.description[:2_000]), "$muted"))
        if focused:
            name = clean_line(self.field.name, 80) if self.field.title and self._named else ""
            known = " · ".join(word for word in (name, rules(self.field), self.control.hint) if word)
            lines += [Content.styled(known, "$faint")] if known else []
        note = Content("\n").join(lines)
        if not note.is_same(self._shown):
            # Whatever is new here lays out the whole form again.
            self._shown = note
            self._note.update(note)
            self._note.set_class(bool(lines), "shown")

    def on_descendant_focus(self) -> None:
        """Say what it is about."""
        self.show()
        self.call_after_refresh(self.scroll_visible, animate=False)

    def on_resize(self) -> None:
        """All of it is in view while it is filled in."""
        if self.control.has_focus:
            self.call_after_refresh(self.scroll_visible, animate=False)

    def on_descendant_blur(self) -> None:
        """It was looked at: from now on being empty counts."""
        self._judged = True
        self.show()

    def on_altered(self) -> None:
        """Check it; the form hears of it as well."""
        self._told = ""
        self.show()

    async def on_kept_emptied(self) -> None:
        """An empty line in its place."""
        await self._replace(None)

    async def put(self, value: Any) -> None:
        """Another value in its place."""
        await self._replace(value)

    async def _replace(self, value: Any) -> None:
        focused = self.control.has_focus
        before, self.control = self.control, control_for(self.field, value)
        await self.query_one(Horizontal).mount(self.control, after=before)
        await before.remove()
        if focused:
            self.control.focus()
        self.show()
        self.post_message(Altered())


class Form(Vertical):
    """See the module. Its fields are in the order they are given; messages name none of their values."""

    DEFAULT_CSS = "Form { height: auto; }"

    class Edited(Message):
        """Something changed."""

    class Ended(Message):
        """The user goes on past the last field (1), or back before the first (-1)."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(
        self,
        fields: tuple[Field, ...],
        values: Mapping[str, Any] | None = None,
        *,
        ident: str | None = None,
        named: bool = True,
    ) -> None:
        """`values` by name of field; a field that is not there, or None, starts empty, whatever its default is.

        `named`: the names are those of a server or a tool, and told where a title stands for one."""
        super().__init__(id=ident)
        self.fields = fields
        given = values or {}
        self._widest = max((_cells(clean_line(field.title or field.name, 200)) for field in fields), default=0)
        self._label = self._label_width(3 * _LABEL)
        self.rows = tuple(Row(field, given.get(field.name), self._label, named=named) for field in fields)

    def compose(self) -> ComposeResult:
        yield from self.rows

    def on_resize(self, event: events.Resize) -> None:
        """Titles get what they need, and two fifths of the width at most."""
        width = self._label_width(event.size.width)
        if width != self._label:
            self._label = width
            for row in self.rows:
                row.fit(width)

    def _label_width(self, width: int) -> int:
        return max(8, min(_LABEL, self._widest + 3, width * 2 // 5))

    def values(self) -> dict[str, Any]:
        """Every field by name, None for those that are left out, NULL for a null that is sent.

        What does not fit is in it as it was typed.
        """
        return {
            row.field.name: row.control.text
            if row.value is UNREADABLE and isinstance(row.control, Words)
            else row.value
            for row in self.rows
        }

    def content(self) -> dict[str, Any]:
        """What would be sent: `values` without what is left out."""
        return {name: None if value is NULL else value for name, value in self.values().items() if value is not None}

    def tell(self, faults: Mapping[str, str]) -> None:
        """What somebody else found wrong, by name of field; where nothing is named, nothing is."""
        for row in self.rows:
            row.tell(faults.get(row.field.name, ""))

    async def put(self, values: Mapping[str, Any]) -> None:
        """Other values in all fields; a field that is not among them becomes empty."""
        for row in self.rows:
            await row.put(values.get(row.field.name))

    def complete(self) -> bool:
        """Whether all of it may be sent. If not: every fault is shown, and the focus is on the first."""
        wrong = [row for row in self.rows if not row.judge()]
        if wrong:
            self._to(wrong[0])
        return not wrong

    def secrets(self) -> tuple[Field, ...]:
        """The fields that look like secrets and are filled in all the same."""
        return tuple(row.field for row in self.rows if row.field.secret and row.value is not None)

    def begin(self) -> None:
        """To the first field that must be filled in and is not, or the first of all."""
        shown = [row for row in self.rows if row.display]
        gaps = [row for row in shown if row.field.required and row.value is None]
        for row in (gaps or shown)[:1]:
            self._to(row)

    def end(self) -> None:
        """To the last field."""
        for row in self.rows[-1:]:
            self._to(row)

    def _to(self, row: Row) -> None:
        # Not `focus()`, which waits for its turn: the next key would still go to the field before.
        self.screen.set_focus(row.control)

    @property
    def current(self) -> Row | None:
        """The field that has the focus."""
        # Not `has_focus`, which the control hears of later.
        focused = self.screen.focused
        return next((row for row in self.rows if row.control is focused), None)

    def go(self, by: int) -> bool:
        """To the next field (1) or the one before (-1); whether there is one."""
        at = self.rows.index(self.current) + by if self.current is not None else -1
        while 0 <= at < len(self.rows):
            if self.rows[at].display:
                self._to(self.rows[at])
                return True
            at += by
        return False

    def roomy(self, on: bool) -> None:
        """Whether there is room to show every field's description, or that of the one with the focus alone."""
        for row in self.rows:
            row.roomy(on)

    @property
    def lines(self) -> int:
        """About how many rows it takes with every description shown."""
        return sum(1 + (1 if row.field.description else 0) + (1 if row.field.secret else 0) for row in self.rows)

    def on_past(self, event: Past) -> None:
        """A field is done."""
        event.stop()
        if not self.go(event.by):
            self.post_message(self.Ended(event.by))

    def on_altered(self, event: Altered) -> None:
        """A field changed."""
        event.stop()
        self.post_message(self.Edited())
