"""Attachments to the next message.

The attachments are read in the background and listed above the composer.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from mcphost.errors import McpHostError, UsageError
from mcphost.translation import _, join_list, translate_sentence
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import (
    AttachmentAction,
    AttachmentRequested,
    AttachRequested,
    ClipboardImageRequested,
    FileAttachRequested,
    PathsPasted,
    TemplateRequested,
)
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft
from mcphost.tui.widgets.unmatched_mentions import list_mentions, mentioned_name

if TYPE_CHECKING:
    from mcphost.host import events
    from mcphost.host.conversation.local_files import Attachment
    from mcphost.host.conversation.resource_changes import ResourceVersions, SentResource
    from mcphost.host.host import Host
    from mcphost.llm.messages import Part
    from mcphost.llm.model import ModelFacts
    from mcphost.tui.transcript.presenter import TranscriptPresenter
    from mcphost.tui.widgets.attachment_list import AttachmentRow

MAX_NOTES = 5
"""Maximum number of notes shown together; a resource may have thousands of entries that are not attached."""


class Attachments:
    """Attachments to the next message, oldest first; background workers read the files and resources.

    Below the attachments, the list above the composer shows what open pages (MCP Apps) provide for the model, which is
    also sent with the next message. Finally, it shows resources that were sent with earlier messages and have changed
    since then.
    """

    _host: "Host"
    _presenter: "TranscriptPresenter"

    def __init__(self, screen: "Screen[None]") -> None:
        self._screen = screen
        self.parts: list[Part] = []
        self._outdated: tuple[SentResource, ...] = ()
        self._versions: ResourceVersions | None = None  # created when a resource is first attached or changes
        self._rows: dict[int, tuple[Part, AttachmentRow]] = {}
        """Cache of the displayed rows, keyed by `id(part)`: measuring a long text takes many milliseconds."""

        self._is_update_due = False
        self._sources: dict[tuple[str, str], tuple[str, str]] = {}
        """Maps each attached resource to the resource that was read to attach it, such as the folder that contains it.

        Keys and values are (server name, URI) pairs.
        """

        self._sent: dict[tuple[str, str], None] = {}
        """The resources that were read and sent in the open conversation."""

        self._followed: tuple[tuple[str, str], ...] = ()

    def connect(self, host: "Host", presenter: "TranscriptPresenter") -> None:
        """Set the host that reads resources and the presenter that shows errors.

        Call this method before adding attachments.
        """
        self._host, self._presenter = host, presenter

    def __bool__(self) -> bool:
        return bool(self.parts)

    def add(self, *parts: "Part") -> None:
        """Attach *parts* to the next message."""
        self.parts.extend(parts)
        self._show()

    def take_all(self) -> "tuple[Part, ...]":
        """Remove and return all attachments."""
        self._sent.update(dict.fromkeys(self._attached_sources()))
        taken, self.parts = tuple(self.parts), []
        self._show()
        return taken

    def handle_action(self, action: AttachmentAction, index: int) -> None:
        """Open, remove or refresh the item at *index* in the list above the composer, depending on *action*.

        Do nothing if the list has no item at *index*.
        """
        contexts = self._host.conversation.page_contexts
        waiting = contexts.waiting
        listed = (*self.parts, *(one.part for one in (*waiting, *self._outdated)))
        if not 0 <= index < len(listed):
            return
        if action == "open":
            from mcphost.tui.screens.attachment_preview import open_preview

            open_preview(self._screen.app, listed[index])  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        elif action == "refresh":
            self._screen.run_worker(partial(self._refresh, listed[index]), group="attach")
        elif index < len(self.parts):
            del self.parts[index]
            self._show()
        elif index < len(self.parts) + len(waiting):
            contexts.remove(waiting[index - len(self.parts)].page)
        else:
            self._ensure_versions().note_read(listed[index])
            self._show()

    # -- changes of resources

    @property
    def event_handlers(self) -> "dict[type[events.AnyEvent], Callable[[Any], None]]":
        """Handlers for the host events that can change the list above the composer, keyed by event type."""
        from mcphost.host import events

        return {
            events.ResourceChanged: self._handle_change,
            events.PageContextsChanged: self._handle_contexts,
            events.TurnStarted: self._handle_messages,
            events.UserMessageAdded: self._handle_messages,
            events.ConversationOpened: self._handle_opened,
        }

    def _ensure_versions(self) -> "ResourceVersions":
        if self._versions is None:
            from mcphost.host.conversation.resource_changes import ResourceVersions

            self._versions = ResourceVersions()
        return self._versions

    def _handle_change(self, event: "events.ResourceChanged") -> None:
        self._ensure_versions().note_change(event.server, event.uri)
        self._update_soon()

    def _handle_contexts(self, _event: object) -> None:
        self._update_soon()

    def _handle_opened(self, event: object) -> None:
        self._sent.clear()
        self._follow()
        self._handle_messages(event)

    def _handle_messages(self, _event: object) -> None:
        if self._versions is not None and not self._versions.is_empty:
            self._update_soon()

    def _update_soon(self) -> None:
        """Schedule a redraw of the attachments, unless one is already scheduled.

        A server may send thousands of change notifications; redrawing after each of them would be too slow.
        """
        if not self._is_update_due:
            self._is_update_due = True
            self._screen.call_later(self._show)

    async def _refresh(self, part: "Part") -> None:
        """Read the resource of *part* again, and attach its current version, replacing any earlier attachment of it.

        *part* is an attachment, or a part of a message that was sent. If an earlier version of the resource was sent to
        the model, attach only the changes. If the model already has the current version, attach nothing, and remove any
        attachment of the resource.
        """
        import anyio.to_thread

        from mcphost.host.conversation.resource_attachments import make_resource_attachments
        from mcphost.host.conversation.resource_changes import find_sent, make_update
        from mcphost.llm.messages import resource_key, with_target

        key = resource_key(part)
        if key is None:
            self._screen.notify(
                _("Only a resource of a server can be read again. To update a file, attach it again."),
                markup=False,
                timeout=4,
            )
            return
        targets = dict(self._host.servers.targets)  # the server may be replaced before the message is sent
        try:
            result = await self._host.features.read_resource(*key, bypass_cache=True)
        except McpHostError as error:
            self._presenter.add_notice("error", error.message, error.hint)
            return
        made = await anyio.to_thread.run_sync(make_resource_attachments, key[0], result.contents, self._model_facts)
        fitted = await self._host.attachments.fit_resources(made, self._model_facts)
        newer = next((one.part for one in fitted if resource_key(one.part) == key), None)
        newer = None if newer is None else with_target(newer, targets)
        if newer is None:
            gone = _("{uri} of {server} is no longer there.").format(uri=key[1], server=key[0])
            kept = _("The version read earlier is kept; {attachments-remove} removes it from the list.")
            self._presenter.add_notice("warning", gone, fill_keys(self._screen, kept))
            return
        sent = find_sent(self._host.conversation.messages).get(key)
        if sent is not None and is_same_version(sent.part, newer):
            self._ensure_versions().note_read(sent.part)
            self.remove(*(one for one in self.parts if resource_key(one) == key))
            self._screen.notify(_("The model has this version already."), markup=False, timeout=4)
            return
        if sent is not None:
            covered = self._host.conversation.covered
            newer = await anyio.to_thread.run_sync(make_update, sent, newer, covered)
        self._ensure_versions().note_read(newer)
        number = next((at for at, one in enumerate(self.parts) if resource_key(one) == key), len(self.parts))
        self.parts[number : number + 1] = [newer]
        self._show()

    def remove(self, *parts: "Part") -> None:
        """Remove the given attachments; ignore any that have already been removed."""
        for part in parts:
            if part in self.parts:
                self.parts.remove(part)
        self._show()

    def add_resource(self, server: str, uri: str) -> None:
        """Read a server's resource in the background, and attach its contents."""
        self._screen.run_worker(partial(self._read_resource, server, uri), group="attach")

    def add_from_template(self, server: str, uri_template: str) -> None:
        """Ask for the variables of a resource template in a form, and attach the resource at the expanded URI.

        Do nothing if the server no longer offers the template.
        """
        from mcphost.tui.screens.resources import ResourceTemplateForm

        def attach(uri: str | None) -> None:
            if uri is not None:
                self.add_resource(server, uri)

        for view in self._host.servers.views():
            for template in view.catalog.templates:
                if (view.name, template.uri_template) == (server, uri_template):
                    form = ResourceTemplateForm(self._host, server, template)
                    self._screen.app.push_screen(form, attach)  # pyright: ignore[reportUnknownMemberType]
                    return

    def add_file(self, path: str, on_failure: Callable[[], None]) -> None:
        """Read a file or folder in the background, and attach it.

        *path* can end with a range of lines, as in `PATH:10-40`. *on_failure* is called if the file cannot be attached.
        """
        self._screen.run_worker(partial(self._read_file, path, on_failure), group="attach")

    def check_paths(self, paths: tuple[str, ...], on_found: Callable[[tuple[str, ...]], None]) -> None:
        """Check in the background whether all paths exist; if so, call *on_found* with them."""
        self._screen.run_worker(partial(self._check_paths, paths, on_found), group="attach")

    async def _check_paths(self, paths: tuple[str, ...], on_found: Callable[[tuple[str, ...]], None]) -> None:
        import anyio.to_thread

        def exist() -> bool:
            return all(os.path.exists(os.path.expanduser(path)) for path in paths)

        if await anyio.to_thread.run_sync(exist):
            on_found(paths)

    def add_clipboard_image(self, on_none: Callable[[], None] | None) -> None:
        """Read the system clipboard in the background, and attach the image in it.

        If the clipboard contains no image, call *on_none* or, if *on_none* is None, show a notification that explains
        why nothing was attached.
        """
        self._screen.run_worker(partial(self._read_clipboard, on_none), group="attach")

    async def _read_clipboard(self, on_none: Callable[[], None] | None) -> None:
        from mcphost.host.conversation.clipboard_image import read_clipboard_image
        from mcphost.host.conversation.local_files import Attachment, make_binary_part
        from mcphost.sandbox.image_formats import identify_image

        body = await read_clipboard_image(os.environ)
        image = identify_image(body)
        if image is None:
            if on_none is None:
                self._screen.notify(_describe_missing_image(), markup=False, timeout=8)
            else:
                on_none()
            return
        try:
            part = make_binary_part("clipboard image", image.mime_type, body, self._model_facts)
            pasted = Attachment(name="clipboard image", part=part)
            self._add_noted(await self._host.attachments.fit(pasted, self._model_facts))
        except McpHostError as error:
            self._presenter.add_notice("error", error.message, error.hint)

    async def _read_resource(self, server: str, uri: str) -> None:
        import anyio.to_thread

        from mcphost.host.conversation.resource_attachments import make_resource_attachments
        from mcphost.llm.messages import resource_key, with_target
        from mcphost.serialization import replace

        targets = dict(self._host.servers.targets)  # the server may be replaced before the message is sent
        try:
            result = await self._host.features.read_resource(server, uri)
        except McpHostError as error:
            self._presenter.add_notice("error", error.message, error.hint)
            return
        read = await anyio.to_thread.run_sync(make_resource_attachments, server, result.contents, self._model_facts)
        fitted = await self._host.attachments.fit_resources(read, self._model_facts)
        fitted = tuple(replace(one, part=with_target(one.part, targets)) for one in fitted)
        for one in fitted:
            self._ensure_versions().note_read(one.part)
            if (key := resource_key(one.part)) is not None:
                self._sources[key] = (server, uri)
        self._add_noted(*fitted)

    async def _read_file(self, path: str, on_failure: Callable[[], None]) -> None:
        import anyio.to_thread

        from mcphost.host.conversation.local_files import parse_reference, read_attachment

        def read() -> "Attachment":
            return read_attachment(parse_reference(path), os.getcwd(), facts)

        facts = self._model_facts
        try:
            self._add_noted(await self._host.attachments.fit(await anyio.to_thread.run_sync(read), facts))
        except McpHostError as error:
            on_failure()
            self._presenter.add_notice("error", error.message, error.hint)

    async def add_mentioned(self, draft: "Draft", own: "Sequence[Part]") -> "tuple[Part, ...]":
        """Return *own*, the parts already attached to the message, and the files that *draft* mentions as `@path`.

        A mention attaches a file only if the user typed the draft and the path is that of a file in the working folder.
        Other mentions are sent as text; a notification names the first of them that looks like a file. Raises
        UsageError if a mentioned file cannot be attached, so that the message is not sent without it.
        """
        import anyio.to_thread

        from mcphost.host.conversation.local_files import find_mentioned, read_attachment

        words = list_mentions(draft.text)
        files = await anyio.to_thread.run_sync(find_mentioned, {word: mentioned_name(word) for word in words})
        parts, facts = list(own), self._model_facts
        for reference in files.values() if draft.origin == "typed" else ():
            try:
                read = await anyio.to_thread.run_sync(read_attachment, reference, os.getcwd(), facts)
                fitted = await self._host.attachments.fit(read, facts)
            except McpHostError as error:
                raise UsageError(error.message, _("Correct the path, or delete the @ to send it as text.")) from error
            self._show_notes([fitted])
            parts += [] if fitted.part in parts else [fitted.part]
        unattached = [word for word in words if draft.origin != "typed" or word not in files]
        if told := self._screen.query_one(Composer).mentions.describe_sent(unattached, files):
            self._screen.notify(told, markup=False, timeout=8)
        return tuple(parts)

    def steer(self, text: str, attachments: "Sequence[Part]") -> bool:
        """Add a message with *text* and *attachments* to the running turn; return False if no turn is running.

        Files that *text* mentions as `@path` are not attached; a notification points this out.
        """
        if is_taken := self._host.conversation.steer(text, attachments):
            self._screen.run_worker(partial(self.add_mentioned, Draft(text), ()), group="attach")
        return is_taken

    def _add_noted(self, *attachments: "Attachment") -> None:
        """Add the attachments that are not attached yet, and show their notes, such as what was truncated.

        A notification names the attachments that are skipped because they are already attached.
        """
        new = [one for one in attachments if one.part not in self.parts]
        if known := [one for one in attachments if one not in new]:
            text = _("{name} is attached already.").format(name=join_list(clean_line(one.name) for one in known))
            self._screen.notify(clean_line(text, 200), markup=False, timeout=4)
        self.add(*(one.part for one in new))
        self._show_notes(new)

    def _show_notes(self, attachments: "Sequence[Attachment]") -> None:
        noted = [one for one in attachments if one.note]
        for one in noted[:MAX_NOTES]:
            note = _("; ").join(map(translate_sentence, clean_line(one.note).split("; ")))
            text = _("{name}: {note}.").format(name=clean_line(one.name), note=note)
            self._screen.notify(text, markup=False, timeout=8)
        if hidden := len(noted) - min(len(noted), MAX_NOTES):
            more = _("{hidden} more attachments have such notes.").format(hidden=hidden)
            self._screen.notify(more, markup=False, timeout=8)

    @property
    def _model_facts(self) -> "ModelFacts":
        from mcphost.llm.model import ModelFacts

        model = self._host.model_selection.model
        return ModelFacts() if model is None else model.facts

    def _attached_sources(self) -> "list[tuple[str, str]]":
        from mcphost.llm.messages import resource_key

        keys = [key for part in self.parts if (key := resource_key(part)) is not None]
        return [self._sources[key] for key in keys if key in self._sources]

    def _follow(self) -> None:
        """Subscribe to the resources that are attached or were sent, and unsubscribe from all others."""
        wanted = tuple(dict.fromkeys((*self._sent, *self._attached_sources())))
        if wanted != self._followed:
            self._followed = wanted
            self._screen.run_worker(partial(self._host.features.attached.follow, wanted), group="follow")

    def _show(self) -> None:
        from mcphost.llm.messages import resource_key

        self._is_update_due = False
        self._follow()
        versions = self._versions
        if versions is not None:
            outdated = versions.find_outdated(self._host.conversation.messages)
            self._presenter.show_outdated(frozenset(filter(None, (resource_key(one.part) for one in outdated))))
            attached = {resource_key(part) for part in self.parts}
            self._outdated = tuple(one for one in outdated if resource_key(one.part) not in attached)
        known, self._rows = self._rows, {}
        changed = (
            [False] * len(self.parts) if versions is None else versions.find_changed((part, 0.0) for part in self.parts)
        )
        rows = [
            self._build_row(part, known)._replace(is_changed=is_changed)
            for part, is_changed in zip(self.parts, changed, strict=True)
        ]
        rows += [self._build_row(one.part, known) for one in self._host.conversation.page_contexts.waiting]
        sent = [self._build_row(one.part, known)._replace(is_changed=True, is_sent=True) for one in self._outdated]
        self._screen.query_one(Composer).show_attachments((*rows, *sent))

    def _build_row(self, part: "Part", known: "dict[int, tuple[Part, AttachmentRow]]") -> "AttachmentRow":
        from mcphost.tui.widgets.attachment_rows import build_row

        self._rows[id(part)] = found = known.get(id(part)) or (part, build_row(part))
        return found[1]


class AttachmentScreen(Screen[None]):
    """Base class of ChatScreen; it handles the composer's Textual messages about attachments."""

    attachments: Attachments
    _host: "Host | None" = None

    def on_attach_requested(self, message: AttachRequested) -> None:
        """Attach the resource that the user selected from the "@" completions."""
        message.stop()
        self.attachments.add_resource(message.server, message.uri)

    def on_template_requested(self, message: TemplateRequested) -> None:
        """Ask for the variables of the template that the user selected from the "@" completions."""
        message.stop()
        self.attachments.add_from_template(message.server, message.uri_template)

    def on_file_attach_requested(self, message: FileAttachRequested) -> None:
        """Attach the file that the user selected from the "@" completions."""
        message.stop()
        self.attachments.add_file(message.path, message.on_failure)

    def on_paths_pasted(self, message: PathsPasted) -> None:
        """Check whether the pasted paths exist; if so, the composer offers to attach the files."""
        message.stop()
        if self._host is not None:
            self.attachments.check_paths(message.paths, message.on_found)

    def on_clipboard_image_requested(self, message: ClipboardImageRequested) -> None:
        """Attach the image in the system clipboard or, if there is none, paste the text last copied in this app."""
        message.stop()
        if self._host is not None:
            self.attachments.add_clipboard_image(message.on_none)
        elif message.on_none is not None:
            message.on_none()

    def on_attachment_requested(self, message: AttachmentRequested) -> None:
        """Open, remove or refresh an attachment."""
        message.stop()
        self.attachments.handle_action(message.action, message.index)


def _describe_missing_image() -> str:
    """Return a sentence that explains why Ctrl+V attached no image, and what the user can do."""
    from mcphost.host.conversation.clipboard_image import missing_package

    package = missing_package(os.environ)
    if package is None:
        return _("The clipboard has no image. To paste text, use your terminal's own key, such as Ctrl+Shift+V.")
    if package:
        return _("To attach images from the clipboard, install {package}.").format(package=package)
    return _("There is no clipboard with images here, for example over SSH. To attach a file, type @ and its path.")


def is_same_version(sent: "Part", newer: "Part") -> bool:
    """Return whether *newer* has the same contents as *sent*, the version that the model already received."""
    from mcphost.host.message_text import clean_text
    from mcphost.llm.messages import ResourcePart

    if isinstance(sent, ResourcePart) and isinstance(newer, ResourcePart):
        return (sent.whole or sent.text) in (newer.text, clean_text(newer.text))  # hidden text may have been removed
    return sent == newer
