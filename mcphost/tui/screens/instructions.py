"""Screen (`/instructions`) that lists the AGENTS.md files, and why each of them is used or not.

The project's commands and hooks that the user has approved or refused are listed below them, so that approvals
can be revoked.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.errors import McpHostError
from mcphost.host.project_file_approvals import ApprovalSource, ProjectFileStatus
from mcphost.translation import N_, _
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import clean
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.config.project_texts import ProjectText
    from mcphost.host.host import Host

_SOURCES: dict[ApprovalSource, str] = {
    "own": N_("used: your own file"),
    "always": N_("used: approved until it changes"),
    "session": N_("used: approved for this session"),
    "flag": N_("used: approved by a flag"),
    "refused": N_("not used: refused in this session"),
    "not asked": N_("not used: not approved yet"),
}
_OFF_ABOUT = N_(
    "The AGENTS.md files of this project are neither read nor asked about.\n\nTo use them, remove "
    "project_instructions = false from [context] in config.toml, then type /reload."
)
PROJECT_INSTRUCTIONS_OFF = N_("not read: project_instructions is false in config.toml")


class _File(NamedTuple):
    """Entry of the list: an AGENTS.md file, or a command or hook file of the project.

    `forget` is a function that revokes the approval of the file. `is_instructions` is true for an AGENTS.md file; its
    text is part of each request to the model.
    """

    status: ProjectFileStatus
    forget: "Callable[[ProjectText], Awaitable[None]]"
    is_instructions: bool = False


class InstructionsScreen(ListScreen):
    """List of the AGENTS.md files of the user and the project, in the same order as in the system prompt.

    They are followed by the project's commands and hooks that the user has approved or refused.
    """

    TITLE_TEXT: ClassVar[str] = N_("Instructions")
    EMPTY_TEXT: ClassVar[str] = N_(
        "No instructions.\n\nThe model follows AGENTS.md in your configuration folder, and, "
        "once you approved them, the AGENTS.md files from the root of the project (the "
        "folder with .git) down to this folder."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("a", N_("approve"), "screen.approve"),
        ("x", N_("stop using (twice)"), "screen.revoke"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "approve", show=False, id="instructions-approve"),
        Binding("x", "revoke", show=False, id="instructions-revoke"),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._revoke_candidate = ""
        self._commands: tuple[ProjectFileStatus, ...] = ()
        self._hooks: tuple[ProjectFileStatus, ...] = ()

    def on_mount(self) -> None:
        """Read the files again, and ask the user to approve new files."""
        super().on_mount()
        self.run_worker(partial(self._refresh, again=False))

    async def _refresh(self, *, again: bool) -> None:
        await self.host.instructions.refresh(again=again)
        if again:
            await self.host.hooks.refresh(again=True)
        await self._load_others()

    async def _load_others(self) -> None:
        try:
            self._commands = await self.host.commands.list_files()
            self._hooks = await self.host.hooks.list_files()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        if self.is_attached:
            self.reload()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each AGENTS.md file, followed by a row for each listed command file and hook file.

        If the project's instructions are turned off, a row below the AGENTS.md files states this.
        """
        host, group = self.host, _("Instructions") if self._commands or self._hooks else ""
        rows = [_row(_File(one, host.instructions.forget, True), group) for one in host.instructions.statuses]
        if not host.instructions.uses_project:
            title = _("Instructions of the project")
            rows.append(ListRow(None, title, _(PROJECT_INSTRUCTIONS_OFF), "○", "$muted", group))
        rows += [_row(_File(one, host.commands.forget), _("Commands")) for one in self._commands]
        return [*rows, *(_row(_File(one, host.hooks.forget), _("Hooks")) for one in self._hooks)]

    def show_details(self, row: ListRow) -> None:
        """Show why the file is used or not, and its text as the model receives it."""
        self._revoke_candidate = ""
        if row.value is None:
            self.show_about(Content.styled(_(_OFF_ABOUT), "$muted"))
            self.query_one(LongText).show("")
            return
        file: _File = row.value
        one = file.status
        size = len(one.text.model_text)
        pairs = [
            (_("file"), one.text.path),
            (_("status"), _(_SOURCES[one.source])),
            (_("digest"), one.text.digest[:16]),
        ]
        if file.is_instructions:
            text = _("{size:,} characters, about {size2:,} tokens a request").format(size=size, size2=size // 4)
            pairs.append((_("size"), text))
        self.show_about(clean_pairs(pairs))
        self.query_one(LongText).show(clean(one.text.model_text if file.is_instructions else one.text.text))

    def action_approve(self) -> None:
        """Ask the user again to approve the AGENTS.md and hook files that are not in use.

        Commands are not included, because the user is asked to approve a command when using it.
        """
        if all(one.is_used for one in (*self.host.instructions.statuses, *self._hooks)):
            if not all(one.is_used for one in self._commands):
                self.notify(_("You are asked about a command when you use it."), markup=False, timeout=6)
                return
            self.notify(_("All of them are used."), markup=False, timeout=4)
        else:
            self.run_worker(partial(self._refresh, again=True))

    def action_revoke(self) -> None:
        """Stop using the selected file if the key is pressed twice; the first press asks for confirmation."""
        row = self.current_row()
        if row is None or row.value is None:
            return
        file: _File = row.value
        one = file.status
        if one.text.is_own:
            self.notify(_("It is your own file: delete it, or empty it."), markup=False, timeout=6)
        elif self._revoke_candidate != one.text.path:
            self._revoke_candidate = one.text.path
            text = fill_keys(self, _("Press {instructions-revoke} again to stop using it."))
            self.show_about(Content.styled(text, "$warning"))
        else:
            self.run_worker(partial(self._revoke, file))

    async def _revoke(self, file: _File) -> None:
        try:
            await file.forget(file.status.text)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        await self._load_others()


def _row(file: _File, group: str) -> ListRow:
    is_used = file.status.is_used
    return ListRow(
        file,
        file.status.text.path,
        _(_SOURCES[file.status.source]),
        "●" if is_used else "○",
        "$success" if is_used else "$muted",
        group,
    )
