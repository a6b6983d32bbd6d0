"""What was allowed for longer than one call: whether it counts, how often it was used; revoke one."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.errors import McpHostError
from mcphost.host.consent.grants import FolderPermission, Permission
from mcphost.tui.screens.browser import Browser, Row, facts
from mcphost.tui.screens.history import when

if TYPE_CHECKING:
    from mcphost.host.host import Host

_MARKS = {"counts": ("●", "$success"), "elsewhere": ("○", "$muted"), "suspended": ("▲", "$warning")}
_TOOLS_SHOWN = 20


def used(one: Permission) -> str:
    """How often it was used."""
    uses = one.grant.uses
    return "not used yet" if not uses else "used once" if uses == 1 else f"used {uses:,} times"


def place(one: Permission) -> str:
    """Where it holds."""
    grant = one.grant
    if grant.session and grant.rule.scope == "everywhere":
        return "until mcphost ends"
    where = {"project": f"in the folder {grant.place}", "conversation": f"in the conversation {grant.place}"}
    return where.get(grant.rule.scope, "everywhere") + (", until mcphost ends" if grant.session else "")


class Grants(Browser):
    """Every grant that stands, those of this session first, then lasting answers about folders.

    `server` narrows it to one.
    """

    TITLE_TEXT: ClassVar[str] = "Allowed for longer"
    EMPTY: ClassVar[str] = (
        "Nothing is allowed for longer than one call.\n\n"
        "What you allow for this session, always, or by a rule, is listed here and can be revoked, and so is which "
        "server may always or never know a folder."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("x x", "revoke", "screen.revoke"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "revoke", show=False)]

    def __init__(self, host: "Host", server: str = "") -> None:
        super().__init__()
        self.host = host
        self.server = server
        self._found: tuple[Permission, ...] = ()
        self._folders: tuple[FolderPermission, ...] = ()
        self._armed = ""
        self.add_class("bare")

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._read)

    async def _read(self) -> None:
        try:
            self._found = await self.host.permissions.all(server=self.server)
            self._folders = await self.host.permissions.folders(server=self.server)
        except McpHostError as error:
            self._found = self.host.permissions.of_session(server=self.server)
            self.notify(str(error), severity="error", markup=False)
        self.reload()

    def load(self) -> Sequence[Row]:
        return [
            Row(one, one.grant.text, f"{used(one)} · {one.why or place(one)}", *_MARKS[one.state])
            for one in self._found
        ] + [
            Row(one, one.answer.text, f"folder · {one.why or 'whenever it asks'}", *_MARKS[one.state])
            for one in self._folders
        ]

    def highlighted(self, row: Row) -> None:
        self._armed = ""
        if isinstance(row.value, FolderPermission):
            self._about_folder(row.value)
            return
        one: Permission = row.value
        grant = one.grant
        tools = sorted(grant.tools)
        more = f" and {len(tools) - _TOOLS_SHOWN} more" if len(tools) > _TOOLS_SHOWN else ""
        self.about(
            facts(
                [
                    ("rule", grant.text),
                    ("counts", "yes" if one.state == "counts" else f"no: {one.why}"),
                    ("holds", place(one)),
                    ("account", grant.account or ""),
                    ("until", when(grant.rule.expires or 0)),
                    ("given", when(grant.created)),
                    ("so far", f"{used(one)}{f', last {when(grant.last_used)}' if grant.last_used else ''}"),
                    ("tools", ", ".join(tools[:_TOOLS_SHOWN]) + more),
                    ("id", grant.id),
                ]
            )
        )

    def _about_folder(self, one: FolderPermission) -> None:
        answer = one.answer
        self.about(
            facts(
                [
                    ("server", answer.server),
                    ("folder", answer.path),
                    ("told", "whenever it asks" if answer.shared else "never"),
                    ("counts", "yes" if one.state == "counts" else f"no: {one.why}"),
                    ("given", when(answer.created)),
                    ("id", answer.id),
                ]
            )
        )

    def action_revoke(self) -> None:
        """Pressed twice: end the one under the cursor."""
        row = self.current()
        if row is None:
            return
        is_folder = isinstance(row.value, FolderPermission)
        ident: str = row.value.answer.id if is_folder else row.value.grant.id
        if self._armed != ident:
            self._armed = ident
            what = "the folder is then" if is_folder else "its calls are then"
            self.about(Content.styled(f"x again revokes it; {what} asked about.", "$warning"))
            return
        self._armed = ""
        self.run_worker(partial(self._revoke, ident))

    async def _revoke(self, ident: str) -> None:
        try:
            await self.host.permissions.revoke(ident)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        await self._read()
