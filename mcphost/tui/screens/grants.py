"""Permissions screen (F7): list all grants with their status and usage, and revoke them."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.errors import McpHostError
from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus
from mcphost.tui.screens.history import format_time
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs

if TYPE_CHECKING:
    from mcphost.host.host import Host

_MARKS = {"counts": ("●", "$success"), "elsewhere": ("○", "$muted"), "suspended": ("▲", "$warning")}
_MAX_TOOLS = 20


def describe_usage(one: GrantStatus) -> str:
    """Describe how often the grant was used, for example "used once"."""
    uses = one.grant.uses
    return "not used yet" if not uses else "used once" if uses == 1 else f"used {uses:,} times"


def describe_grant_scope(one: GrantStatus) -> str:
    """Describe where and for how long the grant applies, for example "everywhere" or "until mcphost ends"."""
    grant = one.grant
    if grant.session and grant.rule.scope == "everywhere":
        return "until mcphost ends"
    where = {"project": f"in the folder {grant.place}", "conversation": f"in the conversation {grant.place}"}
    return where.get(grant.rule.scope, "everywhere") + (", until mcphost ends" if grant.session else "")


class GrantsScreen(ListScreen):
    """List of grants (first those for this session, then stored ones) and of stored answers about sharing folders.

    If *server* is given, only its grants and answers are listed.
    """

    TITLE_TEXT: ClassVar[str] = "Permissions"
    EMPTY_TEXT: ClassVar[str] = (
        "No permissions.\n\n"
        "What you allow for this session, always, or by a rule is listed here and can be revoked, as are "
        "lasting answers about folders."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("x x", "revoke", "screen.revoke"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "revoke", show=False)]

    def __init__(self, host: "Host", server: str = "") -> None:
        super().__init__()
        self.host = host
        self.server = server
        self._grants: tuple[GrantStatus, ...] = ()
        self._folder_grants: tuple[FolderAnswerStatus, ...] = ()
        self._revoke_candidate = ""
        self.add_class("bare")

    def on_mount(self) -> None:
        """Load the grants."""
        super().on_mount()
        self.run_worker(self._load_grants)

    async def _load_grants(self) -> None:
        try:
            self._grants = await self.host.grants.list_grants(server=self.server)
            self._folder_grants = await self.host.grants.list_folder_answers(server=self.server)
        except McpHostError as error:
            self._grants = self.host.grants.list_session_grants(server=self.server)
            self.notify(str(error), severity="error", markup=False)
        self.reload()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each grant, then a row for each stored answer about sharing folders."""
        return [
            ListRow(
                one,
                one.grant.text,
                f"{describe_usage(one)} · {one.why or describe_grant_scope(one)}",
                *_MARKS[one.state],
            )
            for one in self._grants
        ] + [
            ListRow(one, one.answer.text, f"folder · {one.why or 'whenever it asks'}", *_MARKS[one.state])
            for one in self._folder_grants
        ]

    def show_details(self, row: ListRow) -> None:
        """Show the rule, scope, status and usage of a grant, or a stored answer about sharing folders."""
        self._revoke_candidate = ""
        if isinstance(row.value, FolderAnswerStatus):
            self._show_folder_details(row.value)
            return
        one: GrantStatus = row.value
        grant = one.grant
        tools = sorted(grant.tools)
        more = f" and {len(tools) - _MAX_TOOLS} more" if len(tools) > _MAX_TOOLS else ""
        self.show_about(
            clean_pairs(
                [
                    ("rule", grant.text),
                    ("active", "yes" if one.state == "counts" else f"no: {one.why}"),
                    ("applies", describe_grant_scope(one)),
                    ("account", grant.account or ""),
                    ("expires", format_time(grant.rule.expires or 0)),
                    ("created", format_time(grant.created)),
                    (
                        "usage",
                        f"{describe_usage(one)}{f', last {format_time(grant.last_used)}' if grant.last_used else ''}",
                    ),
                    ("tools", ", ".join(tools[:_MAX_TOOLS]) + more),
                    ("id", grant.id),
                ]
            )
        )

    def _show_folder_details(self, one: FolderAnswerStatus) -> None:
        answer = one.answer
        self.show_about(
            clean_pairs(
                [
                    ("server", answer.server),
                    ("folder", answer.path),
                    ("shared", "whenever it asks" if answer.is_shared else "never"),
                    ("active", "yes" if one.state == "counts" else f"no: {one.why}"),
                    ("created", format_time(answer.created)),
                    ("id", answer.id),
                ]
            )
        )

    def action_revoke(self) -> None:
        """Revoke the selected grant or folder answer if the key is pressed twice; the first press asks to confirm."""
        row = self.current_row()
        if row is None:
            return
        is_folder = isinstance(row.value, FolderAnswerStatus)
        grant_id: str = row.value.answer.id if is_folder else row.value.grant.id
        if self._revoke_candidate != grant_id:
            self._revoke_candidate = grant_id
            what = "the folder will be" if is_folder else "its calls will be"
            self.show_about(Content.styled(f"Press x again to revoke it; {what} asked about.", "$warning"))
            return
        self._revoke_candidate = ""
        self.run_worker(partial(self._revoke, grant_id))

    async def _revoke(self, grant_id: str) -> None:
        try:
            await self.host.grants.revoke(grant_id)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        await self._load_grants()
