"""Form that shows the installation plan for a server from a registry, and installs the server.

The user can enter values for the server's inputs.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Button, Input, Static

from mcphost.errors import McpHostError
from mcphost.registry.bundle import MAX_BUNDLE_BYTES
from mcphost.registry.entries import describe_publisher
from mcphost.registry.plan_inputs import split_values
from mcphost.translation import _, join_list, translate_sentence
from mcphost.tui import input_guard
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.stable_scroll import StableScroll
from mcphost.tui.widgets.stepped_column import SteppedInputGroup
from mcphost.tui.widgets.text_inputs import LabeledInput, LabeledInputGroup, wait_for_typed_text

if TYPE_CHECKING:
    from mcphost.host.servers.registry_installer import InstallDraft, InstallReview, RegistryInstaller
    from mcphost.registry.plan_inputs import PlanInput

_REVIEW_DELAY = 0.2
"""Seconds without a change to an input before the plan is updated."""
_MAX_LABEL = 15


class InstallForm(FormScreen[str]):
    """Form that installs or updates a server from a registry.

    The result is a sentence that names the server, or None if the user cancels. The form shows an installation plan
    and performs only the steps in the plan. After an input has changed, the form shows the new plan before it
    installs anything.
    """

    DEFAULT_CSS = """
    InstallForm LabeledInput { margin: 0; }
    InstallForm #content { height: auto; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    InstallForm #plan { margin: 1 0 0 0; background: $surface; padding: 0 1; }
    InstallForm #about { color: $muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "install", show=False, priority=True),
        Binding("ctrl+o", "next_kind", show=False, priority=True, id="install-form-kind"),
        Binding("pagedown", "scroll(1)", show=False, priority=True),
        Binding("pageup", "scroll(-1)", show=False, priority=True),
    ]

    def __init__(self, registry: "RegistryInstaller", draft: "InstallDraft") -> None:
        super().__init__()
        self._registry, self.draft = registry, draft
        self._review: InstallReview | None = None
        self._timer: Timer | None = None
        self._is_busy = False
        self._is_read = False
        """Whether the end of the current plan has been visible."""

        self._shown: tuple[Content, ...] = ()
        self._first_change: int | None = None
        """The number of the first line of the plan that has changed and was not scrolled to, or None."""

        self._changed_at = input_guard.clock()
        """The time at which the Install button was last pressed, or the effect of pressing it last changed."""

    def headline(self) -> str:
        """Return the title, which names the server and its version."""
        verb = _("Update") if self.draft.installed else _("Install")
        return f"{verb} {self.draft.entry.name} {self.draft.entry.version}"

    def body(self) -> ComposeResult:
        """Yield the publisher, the inputs for the server's settings, and the installation plan."""
        entry = self.draft.entry
        source = entry.repository.url or _("no repository is given")
        with StableScroll(id="content", can_focus=False):
            yield Static(
                Content(clean_line(f"{describe_publisher(entry, _)} · {source}", 200)), id="about", markup=False
            )
            yield SteppedInputGroup(self._lines())
            yield Static("", id="plan", markup=False)

    def _lines(self) -> Iterator[LabeledInput]:
        for number, one in enumerate(self.draft.inputs):
            yield LabeledInput(
                clean_line(one.name, _MAX_LABEL), f"input-{number}", hidden=one.is_secret, placeholder=_placeholder(one)
            )

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        verb = _("Update") if self.draft.installed else _("Install")
        return ("leave", _("Back")), ("install", _("Download") if self.draft.download else verb)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        key, kind = keys_in_use(self).short("install-form-kind"), clean_line(self.draft.next_kind, _MAX_LABEL)
        other = _("{key} {next_kind} instead · ").format(key=key, next_kind=kind) if key and kind else ""
        return _("{other}ctrl+s continues · tab next field · page down scrolls · esc back").format(other=other)

    async def wait_for_fields(self) -> None:
        """Wait until all inputs are mounted."""
        await self.query_one(SteppedInputGroup).wait_whole()

    def on_mount(self) -> None:
        """Request the installation plan and focus the first input."""
        super().on_mount()
        self.watch(self.query_one("#content"), "scroll_y", self._mark_read)  # pyright: ignore[reportUnknownMemberType]
        self._focus_first()
        self._request_review()

    def on_resize(self) -> None:
        """Limit the height of the scrollable content, so that the error line, buttons and key hints remain visible."""
        self.query_one("#content").styles.max_height = max(5, self.size.height * 95 // 100 - 10)

    def action_scroll(self, pages: int) -> None:
        """Scroll the installation plan down by *pages* pages, or up if *pages* is negative."""
        content = self.query_one("#content")
        content.scroll_relative(y=pages * max(1, content.size.height - 1), animate=False)

    def on_stepped_mounting_completed(self) -> None:
        """Record whether the end of the plan is visible, now that all inputs above it are mounted."""
        self._mark_read()

    def _mark_read(self) -> None:
        content = self.query_one("#content")
        if self._first_change is not None or not self.query_one(SteppedInputGroup).is_whole:
            return  # the changed lines may be above the visible ones, or inputs may still move the plan out of view
        self._is_read |= content.scroll_y >= content.max_scroll_y and content.size.height > 0

    def _focus_first(self) -> None:
        fields = list(self.query(Input))
        self.set_focus(fields[0] if fields else self.query_one("#leave", Button))

    # -- the plan

    def on_input_changed(self, event: Input.Changed) -> None:
        """Update the installation plan once the user pauses typing."""
        event.stop()
        self._review = None
        self._stop_review()
        self._timer = self.set_timer(_REVIEW_DELAY, self._request_review)

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Update the installation plan when Enter is pressed in an input; Enter never installs anything."""
        event.stop()
        self._request_review()

    def _request_review(self, note: str = "") -> None:
        """Start a worker that shows the installation plan for the values entered in the form.

        If the package's digest is not known yet, the worker requests it, and then shows the plan again. *note* is shown
        below the plan, unless there is a problem or a required input is empty.
        """
        self._stop_review()
        self.run_worker(partial(self._show_review, note), group="review", exclusive=True)

    def _stop_review(self) -> None:
        self.workers.cancel_group(self, "review")  # pyright: ignore[reportUnknownMemberType]
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def _show_review(self, note: str) -> None:
        if download := self.draft.download:
            size = MAX_BUNDLE_BYTES // 1024**2
            self._show_plan(
                [
                    _("download: {download}").format(download=download["url"]),
                    _("sha256: {download}").format(download=download["sha256"]),
                ],
                self.draft.warnings,
            )
            self.show_fault(
                _("The bundle (at most {size} MB) is downloaded first. Nothing is started yet.").format(size=size)
            )
            return
        draft, values = self.draft, self._values()
        review = await self._registry.review(draft, values)
        if not self._is_current(draft, values):
            return
        self._present(review, note)
        if review.is_pending:
            review = await self._registry.ask_digest(draft, values)
            if self._is_current(draft, values):
                self._present(review, note)

    def _is_current(self, draft: "InstallDraft", values: dict[str, list[str]]) -> bool:
        return self.draft is draft and self._values() == values

    def _present(self, review: "InstallReview", note: str) -> None:
        if review != self._review:
            self._is_read = False
        self._review = review
        self._show_plan(review.lines, review.warnings)
        missing = _("needed: {missing}").format(missing=join_list(review.missing)) if review.missing else ""
        self.show_fault(review.problem or missing or note)

    def _show_plan(self, lines: "list[str] | tuple[str, ...]", warnings: tuple[str, ...]) -> None:
        from mcphost.host.servers.registry_installer import translate_plan_line  # not needed before there is a plan

        parts = [(f"▲ {clean(translate_sentence(warning))}", "$warning") for warning in warnings]
        parts += [(clean(translate_plan_line(line, self.draft.inputs)), "") for line in lines]
        shown = tuple(Content.styled(text, style) for text, style in parts)
        if shown != self._shown:
            pairs = enumerate(zip(shown, self._shown, strict=False))
            first = next((number for number, (new, old) in pairs if new != old), min(len(shown), len(self._shown)))
            self._first_change = min(first, len(shown) if self._first_change is None else self._first_change)
            self._shown = shown
        self.query_one("#plan", Static).update(Content("\n").join(shown))
        self.call_after_refresh(self._show_change)

    def _show_change(self) -> None:
        """Scroll up to the first changed line of the plan if it is above the visible lines."""
        if self._first_change is not None:
            content, plan = self.query_one("#content"), self.query_one("#plan", Static)
            before = Content("\n").join(self._shown[: self._first_change])
            height = before.get_height({}, plan.content_size.width) if self._first_change else 0
            top = plan.virtual_region.y + height
            self._first_change = None
            if content.scroll_y > top:
                content.scroll_to(y=top, animate=False, immediate=True)
        self._mark_read()

    def _values(self) -> dict[str, list[str]]:
        texts = (line.value for line in self.query_one(SteppedInputGroup).inputs)
        named = zip(self.draft.inputs, texts, strict=False)  # the last inputs may not be mounted yet
        return {one.name: split_values(one, text) for one, text in named if text}

    # -- actions

    def action_install(self) -> None:
        """Carry out the displayed installation plan, if the user has scrolled to its end.

        If a bundle must be downloaded first, only download it and show the plan for it; another key press is then
        needed to carry out the plan.
        """
        now, before = input_guard.clock(), self._changed_at
        self._changed_at = now
        # A key that is held down repeats; each repetition starts the delay again.
        if not self._is_busy and now - before >= input_guard.GUARD_SECONDS:
            self._is_busy = True
            self.run_worker(self._install, group="install")

    async def _install(self) -> None:
        try:
            await self._go_on()
        finally:
            self._is_busy = False
            self._changed_at = input_guard.clock()

    async def _go_on(self) -> None:
        try:
            if self.draft.download:
                await self._download()
                return
            await wait_for_typed_text(*self.query(Input))
            shown = self._review
            if shown is None:
                self._request_review(_("The plan has changed. Review it, then press Ctrl+S again."))
                return
            if shown.is_pending:
                self.show_fault(_("The digest of the package is being requested. Review it, then press Ctrl+S again."))
                return
            if not self._is_read and not shown.missing:
                self.show_fault(_("Read to the end of the plan first: page down."))
                return
            done = await self._registry.install(self.draft, self._values(), shown)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self.dismiss(done)

    def action_next_kind(self) -> None:
        """Switch to the next kind of installation that the server offers, such as PyPI instead of npm."""
        if not self._is_busy and self.draft.next_kind:
            self._is_busy = True
            self.run_worker(self._switch_kind, group="install")

    async def _switch_kind(self) -> None:
        try:
            entry = self.draft.entry
            draft = await self._registry.prepare(entry.name, self.draft.next_kind, entry.version)
        except McpHostError as error:
            self.show_fault(str(error))
        else:
            self.draft.discard()
            self.draft = draft
            await self._show_draft()
        finally:
            self._is_busy = False
            self._changed_at = input_guard.clock()

    async def _download(self) -> None:
        self.show_fault(_("Downloading…"))
        await self._registry.download(self.draft)
        await self._show_draft()

    async def _show_draft(self) -> None:
        self._stop_review()
        self._review = None
        await self.query_one(SteppedInputGroup).replace_widgets(self._lines())
        self.query_one("#install", Button).label = Content(dict(self.buttons())["install"])
        self.query_one("#keys", Static).update(self.key_hints())
        self.show_fault("")
        self._focus_first()
        self._request_review()


def _placeholder(one: "PlanInput") -> str:
    about = _(" or ").join(one.choices) or one.description or one.placeholder
    needed = _("needed") if one.is_required and not one.defaults else ""
    default = _("default {default}").format(default=join_list(one.defaults)) if any(one.defaults) else ""
    several = _("several with commas") if one.is_repeated and not one.is_secret else ""
    return clean_line(" · ".join(filter(None, (needed, default, several, about))), 100)
