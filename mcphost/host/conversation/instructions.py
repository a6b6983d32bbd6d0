"""Instructions for the model from AGENTS.md files: the user's own, and the project's approved ones."""

from functools import partial

import anyio
import anyio.to_thread

from mcphost.config.project_texts import ProjectPlaces, ProjectText, read_instructions
from mcphost.errors import McpHostError
from mcphost.host.event_bus import EventBus
from mcphost.host.project_file_approvals import ApprovalSource, ProjectApprovals, ProjectFileStatus


class Instructions:
    """The instructions files in use; the user must approve a project's new or changed files."""

    def __init__(
        self, places: ProjectPlaces | None, approvals: ProjectApprovals, events: EventBus, *, uses_project: bool = True
    ) -> None:
        """Create an empty list of instructions, which `refresh` fills; if *places* is None, it stays empty.

        *places* contains the folders that are searched for instructions files. If *uses_project* is false, only the
        user's own file is read.
        """
        self._uses_project = uses_project
        self._places, self._approvals, self._events = places, approvals, events
        self._lock = anyio.Lock()
        self._reported: set[str] = set()
        self.statuses: tuple[ProjectFileStatus, ...] = ()
        """All instructions files as of the last `refresh`, from the most general to the most specific."""

    @property
    def prompts(self) -> tuple[str, ...]:
        """The texts of the instructions files, to be included in the system prompt."""
        return tuple(_prompt(one.text) for one in self.statuses if one.is_used)

    @property
    def uses_project(self) -> bool:
        """Whether the project's instructions files are read, in addition to the user's own."""
        return self._uses_project

    @uses_project.setter
    def uses_project(self, value: bool) -> None:
        self._uses_project = value
        self.statuses = tuple(one for one in self.statuses if value or one.text.is_own)

    async def refresh(self, *, again: bool = False) -> None:
        """Read the instructions files again and ask about new or changed ones; cancelling withdraws the question.

        The user is notified once of each file that cannot be used, and of an error from the store. If *again* is true,
        the user is also asked about files that they declined to approve earlier in this session.
        """
        if self._places is None:
            return
        async with self._lock:
            problems: list[str] = []
            read = partial(read_instructions, self._places, problems.append, with_project=self._uses_project)
            texts = await anyio.to_thread.run_sync(read)
            sources: list[ApprovalSource]
            try:
                await self._approvals.ask("instructions", texts, again=again)
                sources = [await self._approvals.find_source(text) for text in texts]
                problems += self._approvals.describe_changed(zip(texts, sources, strict=True))
            except McpHostError as error:
                problems.append(f"The project's instructions are not used: {error.message}")
                sources = ["own" if text.is_own else "not asked" for text in texts]
            statuses = map(ProjectFileStatus, texts, sources)
            # The setting may have changed while the user was asked.
            self.statuses = tuple(one for one in statuses if self._uses_project or one.text.is_own)
        for problem in problems:
            if problem not in self._reported:
                self._reported.add(problem)
                self._events.notify("warning", problem)

    async def forget(self, text: ProjectText) -> None:
        """Revoke the approval of an instructions file and stop using the file. Raises StoreError."""
        await self._approvals.forget(text)
        await self.refresh()


def _prompt(text: ProjectText) -> str:
    origin = "The user's own instructions" if text.is_own else f"Instructions from {text.path!r}, approved by the user"
    return f"{origin}:\n{text.model_text.strip()}"
