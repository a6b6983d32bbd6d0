"""Permissions screen (F7), which lists all grants with their status and usage, and can revoke them."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.config.approval_digest import server_digest
from mcphost.errors import McpHostError
from mcphost.host.consent.grants import SERVER_CHANGED, FolderAnswerStatus, GrantStatus
from mcphost.host.servers.change_acceptances import ChangeAcceptance
from mcphost.local_time import format_moment
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs

if TYPE_CHECKING:
    from mcphost.host.host import Host

_NOT_WATCHED = N_("your mcp.json no longer watches its files")
_MARKS = {"counts": ("●", "$success"), "elsewhere": ("○", "$muted"), "suspended": ("▲", "$warning")}
_MAX_TOOLS = 20


def describe_usage(one: GrantStatus) -> str:
    """Return a phrase that states how often the grant has been used, such as "used once"."""
    uses = one.grant.uses
    return (
        _("not used yet") if not uses else _("used once") if uses == 1 else _("used {uses:,} times").format(uses=uses)
    )


def describe_grant_scope(one: GrantStatus) -> str:
    """Return where and for how long the grant applies.

    The result is a phrase such as "everywhere" or "until mcphost quits".
    """
    grant = one.grant
    if grant.session and grant.rule.scope == "everywhere":
        return _("until mcphost quits")
    where = {
        "project": _("in the folder {place}").format(place=grant.place),
        "conversation": _("in the conversation {place}").format(place=grant.place),
    }
    return where.get(grant.rule.scope, _("everywhere")) + (_(", until mcphost quits") if grant.session else "")


class GrantsScreen(ListScreen):
    """List of grants, stored decisions about sharing folders, and servers whose tool changes are accepted in advance.

    Tool changes of a server are accepted in advance if the user has chosen to accept all its later changes during this
    session. If *server* is given, only the entries for that server are listed.
    """

    TITLE_TEXT: ClassVar[str] = N_("Permissions")
    EMPTY_TEXT: ClassVar[str] = N_(
        "No permissions.\n\nWhat you allow for this session, always or by a rule is listed here, as are "
        "saved answers about shared folders. You can revoke each of them."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("x", N_("revoke (twice)"), "screen.revoke"),)
    BINDINGS: ClassVar[list[BindingType]] = [Binding("x", "revoke", show=False, id="permissions-revoke")]

    def __init__(self, host: "Host", server: str = "") -> None:
        super().__init__()
        self.host = host
        self.server = server
        self._grants: tuple[GrantStatus, ...] = ()
        self._folder_grants: tuple[FolderAnswerStatus, ...] = ()
        self._revoke_candidate = ""
        self._is_loaded = False
        self.add_class("bare")

    def on_mount(self) -> None:
        """Load the grants."""
        super().on_mount()
        self.run_worker(self._load_grants, group="grants", exclusive=True)

    def handle_server_change(self) -> None:
        """Load the grants again, because a server's tools may have changed or the user may have accepted a change.

        Either can make a grant active or inactive.
        """
        self.run_worker(self._load_grants, group="grants", exclusive=True)

    def empty_text(self) -> str:
        """Return the text for an empty list, or "" while the grants are being loaded."""
        return super().empty_text() if self._is_loaded else ""

    async def _load_grants(self) -> None:
        try:
            self._grants = await self.host.grants.list_grants(server=self.server)
            self._folder_grants = await self.host.grants.list_folder_answers(server=self.server)
        except McpHostError as error:
            self._grants = self.host.grants.list_session_grants(server=self.server)
            self.notify(str(error), severity="error", markup=False)
        self._is_loaded = True
        self.reload()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each grant, folder decision, and server whose tool changes are accepted in advance."""
        return (
            [
                ListRow(
                    one,
                    one.grant.text,
                    f"{describe_usage(one)} · {translate_sentence(one.why) or describe_grant_scope(one)}",
                    *_MARKS[one.state],
                )
                for one in self._grants
            ]
            + [
                ListRow(
                    one,
                    one.answer.text,
                    _("folder · {why}").format(why=translate_sentence(one.why) or _("whenever it asks")),
                    *_MARKS[one.state],
                )
                for one in self._folder_grants
            ]
            + [
                ListRow(
                    one,
                    _("{server}: changes of its tools").format(server=one.server),
                    _("kept without asking · until mcphost quits"),
                    *_MARKS["elsewhere" if self._explain_inactive(one) else "counts"],
                )
                for one in self.host.servers.change_acceptances.list(self.server)
            ]
        )

    def _explain_inactive(self, one: ChangeAcceptance) -> str:
        """Return why later tool changes of a server are no longer accepted in advance, or "" if they are.

        The reason is that the server's configuration has changed, or that the user's `mcp.json` no longer names files
        of the server that mcphost watches for changes.
        """
        configs = [view.config for view in self.host.servers.views() if view.name == one.server]
        if not any(server_digest(config) == one.server_digest for config in configs):
            return translate_sentence(SERVER_CHANGED)
        return "" if any(config.has_own_watch for config in configs) else _(_NOT_WATCHED)

    def show_details(self, row: ListRow) -> None:
        """Show the details of a grant, of a decision about sharing a folder, or of accepted tool changes."""
        self._revoke_candidate = ""
        if isinstance(row.value, FolderAnswerStatus):
            self._show_folder_details(row.value)
            return
        if isinstance(row.value, ChangeAcceptance):
            self._show_acceptance_details(row.value)
            return
        one: GrantStatus = row.value
        grant = one.grant
        tools = sorted(grant.tools)
        more = (
            _(" and {tools_count} more").format(tools_count=len(tools) - _MAX_TOOLS) if len(tools) > _MAX_TOOLS else ""
        )
        self.show_about(
            clean_pairs(
                [
                    (_("rule"), grant.text),
                    (
                        _("active"),
                        _("yes") if one.state == "counts" else _("no: {why}").format(why=translate_sentence(one.why)),
                    ),
                    (_("applies"), describe_grant_scope(one)),
                    (_("account"), grant.account or ""),
                    (_("expires"), format_moment(grant.rule.expires or 0)),
                    (_("created"), format_moment(grant.created)),
                    (
                        _("usage"),
                        _("{usage}, last {time}").format(usage=describe_usage(one), time=format_moment(grant.last_used))
                        if grant.last_used
                        else describe_usage(one),
                    ),
                    (_("tools"), join_list(tools[:_MAX_TOOLS]) + more),
                    (_("id"), grant.id),
                ]
            )
        )

    def _show_folder_details(self, one: FolderAnswerStatus) -> None:
        answer = one.answer
        self.show_about(
            clean_pairs(
                [
                    (_("server"), answer.server),
                    (_("folder"), answer.path),
                    (_("shared"), _("whenever it asks") if answer.is_shared else _("never")),
                    (
                        _("active"),
                        _("yes") if one.state == "counts" else _("no: {why}").format(why=translate_sentence(one.why)),
                    ),
                    (_("created"), format_moment(answer.created)),
                    (_("id"), answer.id),
                ]
            )
        )

    def _show_acceptance_details(self, one: ChangeAcceptance) -> None:
        inactive = self._explain_inactive(one)
        why = _("no: {why}").format(why=inactive) if inactive else ""
        times = _("used once") if one.uses == 1 else _("used {uses:,} times").format(uses=one.uses)
        self.show_about(
            clean_pairs(
                [
                    (_("server"), one.server),
                    (_("allows"), _("changed tools of this server are kept without asking")),
                    (_("active"), why or _("yes")),
                    (_("applies"), _("until mcphost quits")),
                    (_("created"), format_moment(one.created)),
                    (_("usage"), times if one.uses else _("not used yet")),
                    (_("id"), one.id),
                ]
            )
        )

    def action_revoke(self) -> None:
        """Revoke the selected grant, folder decision or acceptance of tool changes on the second key press.

        The first press asks for confirmation.
        """
        row = self.current_row()
        if row is None:
            return
        value = row.value
        if isinstance(value, FolderAnswerStatus):
            grant_id = value.answer.id
        else:
            grant_id = value.id if isinstance(value, ChangeAcceptance) else value.grant.id
        if self._revoke_candidate != grant_id:
            self._revoke_candidate = grant_id
            text = fill_keys(self, _("Press {permissions-revoke} again to revoke it; you will be asked again."))
            self.show_about(Content.styled(text, "$warning"))
            return
        self._revoke_candidate = ""
        self.run_worker(partial(self._revoke, grant_id))

    async def _revoke(self, grant_id: str) -> None:
        try:
            await self.host.grants.revoke(grant_id)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        await self._load_grants()
