"""What was asked, decided and done: the newest rows first, one with all it holds; check them all, undo a grant."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.errors import MalformedMessage, McpHostError
from mcphost.serialization import dumps, loads
from mcphost.store.audit_reader import Verified, Wanted
from mcphost.store.audit_store import Row as Written
from mcphost.tui.screens.browser import Browser, Row, facts
from mcphost.tui.screens.history import when
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host

PAGE = 200
"""Rows at a time: as many as a person reads through, and as few as a ledger of any size gives at once."""
_REFUSED = frozenset({"deny", "decline", "cancel", "declined", "held back"})
_FAULTS = frozenset({"failed", "error", "lost", "not opened"})


class Audit(Browser):
    """A page of the ledger at a time; the search looks through all of it."""

    TITLE_TEXT: ClassVar[str] = "Audit"
    EMPTY: ClassVar[str] = (
        "Nothing is recorded yet.\n\n"
        "Every question, its answer and what came of it is listed here before it takes effect."
    )
    WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.verify"})
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("v", "verify", "screen.verify"),
        ("o", "older", "screen.older"),
        ("n", "newer", "screen.newer"),
        ("u u", "undo the grant", "screen.undo"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "verify", show=False),
        Binding("o", "older", show=False),
        Binding("n", "newer", show=False),
        Binding("u", "undo", show=False),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._found: tuple[Written, ...] = ()
        self._pages: list[int] = [0]
        self._text = ""
        self._total = 0
        self._armed = ""
        self._leaving = False

    def on_mount(self) -> None:
        super().on_mount()
        self._look()

    def on_unmount(self) -> None:
        """A check that still runs ends."""
        self._leaving = True

    def server_changed(self) -> None:
        """Nothing of this follows what servers do now; what is read stays in its place."""

    def load(self) -> Sequence[Row]:
        return [_entry(row) for row in self._found]

    # -- pages
    def filter(self, text: str) -> None:
        """Ask for what matches: the ledger may hold far more than what is here."""
        if text != self._text:
            self._text, self._pages = text, [0]
            self._look()

    def _look(self) -> None:
        # A newer wish takes the place of one that is still being answered.
        self.run_worker(self._read, group="page", exclusive=True)

    async def _read(self) -> None:
        wanted = Wanted(text=self._text, before=self._pages[-1])
        try:
            self._found = await self.host.journal.page(wanted, PAGE)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.entries = list(self.load())
        super().filter("")
        newest = f"newest {len(self._found)}" if len(self._pages) == 1 else f"page {len(self._pages)}"
        which = f"  {newest}" if self._found else ""
        self.query_one("#head", Static).update(Content.assemble((self.TITLE_TEXT, "bold $accent"), (which, "$faint")))

    def action_older(self) -> None:
        """The page before in time."""
        if len(self._found) == PAGE:
            self._pages.append(self._found[-1].seq)
            self._look()

    def action_newer(self) -> None:
        """The page after in time."""
        if len(self._pages) > 1:
            self._pages.pop()
            self._look()

    # -- one row
    def highlighted(self, row: Row) -> None:
        self._armed = ""
        self.about(facts(_facts(row.value)))
        self.query_one(LongText).show(_words(row.value.detail))

    def action_undo(self) -> None:
        """Pressed twice: revoke the grant that this row gave or used."""
        row = self.current()
        grant: str = row.value.grant if row is not None else ""
        if not grant or "/" in grant:
            self.about(Content.styled("This row is not about a stored grant.", "$muted"))
        elif self._armed != grant:
            self._armed = grant
            self.about(
                Content.styled(f"u again revokes the grant {grant}; its calls are then asked about.", "$warning")
            )
        else:
            self._armed = ""
            self.run_worker(partial(self._undo, grant))

    async def _undo(self, grant: str) -> None:
        try:
            await self.host.permissions.revoke(grant)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.about(Content.styled(f"The grant {grant} is revoked.", "$success"))

    # -- the check
    def action_verify(self) -> None:
        """Check every row, and say how far it is."""
        self.run_worker(self._verify, group="verify", exclusive=True)

    async def _verify(self) -> None:
        self.about(Content.styled("Checking…", "$muted"))
        app = cast("App[Any]", self.app)  # pyright: ignore[reportUnknownMemberType]

        def progress(done: int, total: int) -> bool:
            if not self._leaving and done < total:
                app.call_from_thread(self._checked, done, total)
            return not self._leaving

        found = await self.host.journal.verify(progress)
        if not self._leaving:
            self.query_one(LongText).show("\n".join(one.text for one in found.findings))
            self.about(_verdict(found))

    def _checked(self, done: int, total: int) -> None:
        if not self._leaving:
            self.about(Content.styled(f"Checking… {done:,} of {total:,} rows", "$muted"))

    def action_search(self) -> None:
        """To the search line."""
        self.query_one("#search", Input).focus()


def _entry(row: Written) -> Row:
    what = " ".join(part for part in (row.server, row.subject) if part) or row.kind
    mark, style = "●", "$success"
    if row.event == "broken" or row.decision in _FAULTS:
        mark, style = "✕", "$error"
    elif row.decision in _REFUSED or row.event in ("withdrawn", "held back"):
        mark, style = "○", "$warning"
    elif row.event == "ended":
        mark, style = "·", "$muted"
    by = f" · {row.who}" if row.who not in ("", "mcphost") else ""
    title = f"{row.kind} {row.event}" + (f": {row.decision}" if row.decision else "")
    return Row(row, title, f"{what}{by} · {when(row.at / 1_000_000)}", mark, style)


def _facts(row: Written) -> list[tuple[str, str]]:
    """What matters first: on a small screen the last ones are not seen."""
    took = f"{row.duration:,} ms" if row.duration else ""
    result = f"{row.size:,} bytes" if row.size else ""
    return [
        ("what", f"{row.kind} {row.event}" + (f": {row.decision}" if row.decision else "")),
        ("of", " ".join(part for part in (row.server, row.subject) if part)),
        ("by", row.who),
        ("grant", row.grant),
        ("took", ", ".join(part for part in (took, result) if part)),
        ("row", f"{row.seq:,}" + (f", about row {row.about:,}" if row.about else "")),
        ("at", when(row.at / 1_000_000)),
        ("arguments", row.arguments[:16]),
        ("shown", row.shown[:16]),
        ("definition", row.definition[:16]),
        ("hash", row.hash[:16]),
    ]


def _words(detail: str) -> str:
    try:
        return dumps(loads(detail), indent=2) if detail else ""
    except MalformedMessage:
        return detail


def _verdict(found: Verified) -> Content:
    if found.ok:
        text = f"All {found.rows:,} rows are as they were written."
        return Content.assemble((text, "$success"), (f"\nThe last one has the hash {found.reached.hash}", "$muted"))
    return Content.styled(f"Something is wrong in {found.rows:,} rows; below is what and where.", "$error")
