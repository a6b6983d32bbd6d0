"""Screen (F10) for browsing and verifying the audit log, and for revoking grants.

The newest rows come first. The labels of the rows come from `host.audit.audit_labels`.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.app import App
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from mcphost.errors import MalformedMessage, McpHostError
from mcphost.host.audit.audit_labels import event_label, kind_label, search_text, source_label
from mcphost.local_time import format_moment
from mcphost.pluralize import translate_count
from mcphost.serialization import dumps, loads
from mcphost.store.audit_reader import AuditFilter, AuditVerification
from mcphost.store.audit_store import AuditRow
from mcphost.translation import N_, _, join_list, ngettext, translate_sentence
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.status_bars import KeyBar

if TYPE_CHECKING:
    from mcphost.host.host import Host

PAGE_SIZE = 200
"""Rows per page; few enough to load quickly from an audit log of any size."""
_REFUSED_DECISIONS = frozenset({"deny", "decline", "cancel", "declined", "held back"})
_FAILED_DECISIONS = frozenset({"failed", "error", "lost", "not opened"})


class AuditScreen(ListScreen):
    """List of the audit log's rows in pages of 200; the search covers all pages."""

    TITLE_TEXT: ClassVar[str] = N_("Audit")
    EMPTY_TEXT: ClassVar[str] = N_(
        "Nothing is recorded yet.\n\nEvery question, answer and outcome is listed here before it takes effect."
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.verify"})
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("v", N_("verify"), "screen.verify"),
        ("o", N_("older"), "screen.older"),
        ("n", N_("newer"), "screen.newer"),
        ("u", N_("revoke the permission (twice)"), "screen.undo"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "verify", show=False, id="audit-verify"),
        Binding("o", "older", show=False, id="audit-older"),
        Binding("n", "newer", show=False, id="audit-newer"),
        Binding("u", "undo", show=False, id="audit-undo"),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._audit_rows: tuple[AuditRow, ...] = ()
        self._page_starts: list[int] = [0]
        self._search_text = ""
        self._total = 0
        self._revoke_candidate = ""
        self._is_closing = False

    def on_mount(self) -> None:
        """Load the first page."""
        super().on_mount()
        self._request_page()

    def on_unmount(self) -> None:
        """Cancel a verification that is still running."""
        self._is_closing = True

    def handle_server_change(self) -> None:
        """Do nothing, because the rows of the audit log do not depend on the servers."""

    def load(self) -> Sequence[ListRow]:
        """Return the rows of the current page."""
        return [_list_row(row) for row in self._audit_rows]

    # -- pages
    def filter(self, text: str) -> None:
        """Search the whole audit log for *text*, and show the first page of matches."""
        if text != self._search_text:
            self._search_text, self._page_starts = text, [0]
            self._request_page()

    def _request_page(self) -> None:
        # A newer query replaces a query that is still running.
        self.run_worker(self._load_page, group="page", exclusive=True)

    async def _load_page(self) -> None:
        wanted = AuditFilter(text=self._search_text, before=self._page_starts[-1])
        try:
            # Most rows consist of the same few words, so caching makes searching a long log fast.
            self._audit_rows = await self.host.audit.read_page(wanted, PAGE_SIZE, lru_cache(1024)(search_text))
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.entries = list(self.load())
        super().filter("")
        newest = (
            _("newest {audit_rows_count}").format(audit_rows_count=len(self._audit_rows))
            if len(self._page_starts) == 1
            else _("page {page_starts_count}").format(page_starts_count=len(self._page_starts))
        )
        which = f"  {newest}" if self._audit_rows else ""
        self.query_one("#head", Static).update(
            Content.assemble((_(self.TITLE_TEXT), "bold $accent"), (which, "$faint"))
        )

    def action_older(self) -> None:
        """Show the next page, which has older rows; do nothing on the last page."""
        if len(self._audit_rows) == PAGE_SIZE:
            self._page_starts.append(self._audit_rows[-1].seq)
            self._request_page()

    def action_newer(self) -> None:
        """Go back to the previous page, which has newer rows; do nothing on the first page."""
        if len(self._page_starts) > 1:
            self._page_starts.pop()
            self._request_page()

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        """Return a (key, label, action) tuple for each key that currently works.

        The key that revokes a grant is included only if the selected row refers to a stored grant.
        """
        row = self.current_row() if self.visible_rows else None  # the list does not exist yet in `compose`
        keeps_undo = row is not None and _has_stored_grant(row.value)
        return tuple(key for key in super()._key_bar_items() if keeps_undo or key[2] != "screen.undo")

    # -- row details
    def show_details(self, row: ListRow) -> None:
        """Show the columns of a row, and its recorded details as JSON."""
        self._revoke_candidate = ""
        self.query_one(KeyBar).show(self._key_bar_items())
        self.show_about(clean_pairs(_detail_pairs(row.value)))
        self.query_one(LongText).show(_format_detail(row.value.detail))

    def action_undo(self) -> None:
        """Revoke the grant in the selected row on the second key press; the first asks for confirmation."""
        row = self.current_row()
        grant: str = row.value.grant if row is not None else ""
        if row is None or not _has_stored_grant(row.value):
            self.show_about(Content.styled(_("This row is not about a stored permission."), "$muted"))
        elif self._revoke_candidate != grant:
            self._revoke_candidate = grant
            text = _(
                "Press {audit-undo} again to revoke the permission {grant}; you will be asked about its calls again."
            )
            self.show_about(Content.styled(fill_keys(self, text, grant=grant), "$warning"))
        else:
            self._revoke_candidate = ""
            self.run_worker(partial(self._revoke_grant, grant))

    async def _revoke_grant(self, grant: str) -> None:
        try:
            await self.host.grants.revoke(grant)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.show_about(Content.styled(_("The permission {grant} is revoked.").format(grant=grant), "$success"))

    # -- verification
    def action_verify(self) -> None:
        """Verify that no row of the audit log has been changed; show the progress, then the result."""
        self.run_worker(self._verify, group="verify", exclusive=True)

    async def _verify(self) -> None:
        self.show_about(Content.styled(_("Checking…"), "$muted"))
        app = cast("App[Any]", self.app)  # pyright: ignore[reportUnknownMemberType]

        def progress(done: int, total: int) -> bool:
            """Show that *done* of *total* rows are verified; return False to cancel if the screen is closing.

            This function is called in another thread.
            """
            if not self._is_closing and done < total:
                app.call_from_thread(self._show_verify_progress, done, total)
            return not self._is_closing

        found = await self.host.audit.verify(progress)
        if not self._is_closing:
            self.query_one(LongText).show("\n".join(translate_sentence(one.text) for one in found.findings))
            self.show_about(_describe_verification(found))

    def _show_verify_progress(self, done: int, total: int) -> None:
        if not self._is_closing:
            self.show_about(
                Content.styled(_("Checking… {done:,} of {total:,} rows").format(done=done, total=total), "$muted")
            )


def _has_stored_grant(row: AuditRow) -> bool:
    """Return whether an audit log row refers to a stored grant.

    Other rows refer to a rule, or to no permission at all.
    """
    return bool(row.grant) and "/" not in row.grant


def _list_row(row: AuditRow) -> ListRow:
    what = " · ".join(part for part in (row.server, row.subject) if part) or kind_label(row.kind)
    mark, style = "●", "$success"
    if row.event == "broken" or row.decision in _FAILED_DECISIONS:
        mark, style = "✕", "$error"
    elif row.decision in _REFUSED_DECISIONS or row.event in ("withdrawn", "held back"):
        mark, style = "○", "$warning"
    elif row.event == "ended":
        mark, style = "·", "$muted"
    by = f" · {source_label(row.who)}" if row.who not in ("", "mcphost") else ""
    return ListRow(
        row,
        event_label(row.kind, row.event, row.decision),
        f"{format_moment(row.at / 1_000_000)} · {what}{by}",
        mark,
        style,
    )


def _detail_pairs(row: AuditRow) -> list[tuple[str, str]]:
    """Return a row's columns as name-value pairs, the most important ones first.

    A small screen shows only the first few pairs. The time comes later, because the list already shows it.
    """
    took = _("{duration:,} ms").format(duration=row.duration) if row.duration else ""
    result = _("{size:,} bytes").format(size=row.size) if row.size else ""
    return [
        (_("event"), event_label(row.kind, row.event, row.decision)),
        (_("subject"), " · ".join(part for part in (row.server, row.subject) if part)),
        (_("by"), source_label(row.who)),
        (_("permission"), row.grant),
        (_("took"), join_list(part for part in (took, result) if part)),
        (_("row"), f"{row.seq:,}" + (_(", about row {about:,}").format(about=row.about) if row.about else "")),
        (_("time"), format_moment(row.at / 1_000_000)),
        (_("arguments"), _shorten_digest(row.arguments)),
        (_("shown"), _shorten_digest(row.shown)),
        (_("definition"), _shorten_digest(row.definition)),
        (_("hash"), _shorten_digest(row.hash)),
    ]


def _shorten_digest(digest: str) -> str:
    return f"sha256 {digest[:16]}" if digest else ""


def _format_detail(detail: str) -> str:
    try:
        return dumps(loads(detail), indent=2) if detail else ""
    except MalformedMessage:
        return detail


def _describe_verification(found: AuditVerification) -> Content:
    if found.is_intact:
        text = ngettext("{rows:,} row is unchanged.", "All {rows:,} rows are unchanged.", found.rows)
        text = text.format(rows=found.rows)
        return Content.assemble(
            (text, "$success"), (_("\nThe last one has the hash {hash}").format(hash=found.reached.hash), "$muted")
        )
    return Content.styled(_("Problems found in {rows}:").format(rows=translate_count(found.rows, "row")), "$error")
