"""Resources screen (F4) for browsing and previewing every server's resources, and attaching one."""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, ClassVar

import anyio.to_thread
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from mcphost.config.variable_references import resolve_target
from mcphost.errors import McpHostError, UsageError
from mcphost.host.content_rendering import decode_contents, render_contents
from mcphost.host.server_views import allowed_icons
from mcphost.host.servers.features import expand_template, required_variables, template_variables
from mcphost.llm.messages import ImagePart
from mcphost.protocol.base import Annotations
from mcphost.protocol.prompts import Completion, ResourceTemplateReference
from mcphost.protocol.resources import ReadResourceResult, Resource, ResourceTemplate
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.forms.suggestion_input import SuggestionInput
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_reader import update_seconds
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.screens.arguments_form import ArgumentsForm
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.screens.save_file import SaveFileForm, resolve_file_name, write_new_file
from mcphost.tui.transcript.image_block import detect_image
from mcphost.tui.widgets.image_view import ImageView
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.stepped_column import SteppedColumn
from mcphost.tui.widgets.text_inputs import OrderedInput

if TYPE_CHECKING:
    from mcphost.host.host import Host


MAX_AUTO_PREVIEW_BYTES = 1_000_000
"""Size in bytes above which a resource is read only when the user asks for a preview."""
_MAX_NAME = 80


def render_read_result(result: ReadResourceResult) -> str:
    """Return the contents of a resource as text.

    Binary contents are replaced by their media type and size.
    """
    parts: list[str] = []
    for entry in result.contents:
        head = f"── {entry.uri}\n" if len(result.contents) > 1 else ""
        if entry.text is not None:
            parts.append(head + format_text(entry.text, entry.mime_type or ""))
        elif entry.blob is not None:
            parts.append(render_contents(entry))
    return "\n\n".join(parts) or _("[empty]")


def describe_saving(server: str, uri: str) -> str:
    """Return a sentence with the shell command that saves an image resource to a file.

    Return "" if the command is very long or contains characters that cannot be displayed unchanged.
    """
    command = f"mcphost read {quote(server)} {quote(uri)} -o FILE"
    return _("To save the picture: {command}").format(command=command) if clean_line(command, 2_000) == command else ""


def format_text(text: str, mime_type: str) -> str:
    """Indent JSON text if it is valid and shorter than 200,000 characters; return other text unchanged.

    Text is considered JSON if *mime_type* contains "json".
    """
    if "json" in mime_type and len(text) < 200_000:
        from mcphost.serialization import dumps, loads

        try:
            return dumps(loads(text), indent=2)
        except McpHostError:
            return text
    return text


def is_large(item: Resource) -> bool:
    """Return whether the server declares a size above 1 MB.

    A large resource is read only when the user requests it.
    """
    return (item.size or 0) > MAX_AUTO_PREVIEW_BYTES


def describe_type(item: Resource) -> str:
    """Return a resource's media type, or "" if unknown; for a folder, "directory (inode/directory)"."""
    return _("directory (inode/directory)") if item.mime_type == "inode/directory" else item.mime_type or ""


def describe_annotations(item: Resource | ResourceTemplate, server_url: str) -> list[tuple[str, str]]:
    """Return name-value pairs about a resource or resource template; a value that the server did not provide is "".

    The pairs are the audience, the priority, the modification date and the number of linked icons, which mcphost does
    not fetch. Only icons to which a server at *server_url* may link are counted.
    """
    said = item.annotations or Annotations()
    fetched = sum(not icon.src.lower().startswith("data:") for icon in allowed_icons(item.icons, server_url))
    return [
        (_("audience"), join_list({"user": _("you"), "assistant": _("the model")}[one] for one in said.audience)),
        (_("priority"), f"{said.priority:.0%}" if said.priority is not None else ""),
        (_("modified"), said.last_modified or ""),
        (_("icon"), _("{fetched}, not fetched").format(fetched=fetched) if fetched else ""),
    ]


class ResourcesScreen(ListScreen):
    """List of every server's resources and templates; its result is a (server name, URI) pair, or None.

    The result is None if the user cancels.
    """

    TITLE_TEXT: ClassVar[str] = N_("Resources")
    EMPTY_TEXT: ClassVar[str] = N_(
        "No server offers resources. They appear here as soon as one does ({servers} shows the servers)."
    )
    DEFAULT_CSS = "ResourcesScreen #picture { max-height: 60%; margin: 0 1 1 1; }"
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("attach to the message"), "screen.attach"),
        ("p", N_("preview"), "screen.preview"),
        ("w", N_("watch"), "screen.watch"),
        ("s", N_("save"), "screen.save"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "attach", show=False, id="resources-attach"),
        Binding("p", "preview", show=False, id="resources-preview"),
        Binding("w", "watch", show=False, id="resources-watch"),
        Binding("s", "save", show=False, id="resources-save"),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._image_view = ImageView(rows=30, id="picture")
        self._active: tuple[tuple[str, ...], ...] = ()

    def on_mount(self) -> None:
        """Add an image preview above the text preview, and load the list.

        A timer then checks the subscriptions every second.
        """
        self.query_one("#side").mount(self._image_view, before="LongText")
        super().on_mount()
        self.set_interval(update_seconds(self, 1.0), self._update_subscriptions)

    def _update_subscriptions(self) -> None:
        """Reload the list if a subscription has been interrupted or resumed.

        A timer calls this method, because no event reports such a change.
        """
        if not self.is_covered and self._active != self._active_uris():
            self.reload()

    def _active_uris(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self.host.features.active_uris(view.name) for view in self.host.servers.views())

    def load(self) -> Sequence[ListRow]:
        """Return a row for each resource and template of every server, with a mark on subscribed resources."""
        out: list[ListRow] = []
        self._active = self._active_uris()
        for view in self.host.servers.views():
            watched = set(self.host.features.subscribed_uris(view.name))
            active = set(self.host.features.active_uris(view.name))
            out.extend(
                ListRow(
                    (view.name, item),
                    item.title or item.name or item.uri,
                    item.uri,
                    "" if item.uri not in watched else "◉" if item.uri in active else "◌",
                    group=view.name,
                )
                for item in view.catalog.resources
            )
            out.extend(
                ListRow(
                    (view.name, item),
                    item.title or item.name or item.uri_template,
                    _("{uri_template} (a template)").format(uri_template=item.uri_template),
                    "◇",
                    group=view.name,
                )
                for item in view.catalog.templates
            )
        return out

    def show_details(self, row: ListRow) -> None:
        """Show the details of a resource or template, and load a preview unless the resource is large."""
        server, item = row.value
        # A preview requested for another entry must not appear here.
        self.workers.cancel_group(self, "preview")  # pyright: ignore[reportUnknownMemberType]
        self._image_view.show_image(None)
        self.show_icon(item.icons)
        if not isinstance(item, Resource):
            known = [(_("server"), server), (_("template"), item.uri_template), (_("about"), item.description or "")]
            known += describe_annotations(item, resolve_target(self.host.servers.view(server).config).url)
            self.show_about(clean_pairs([*known, ("", _("enter fills in the URI"))]))
            self.query_one(LongText).show("")
            return
        self.show_about(
            clean_pairs(
                [
                    (_("server"), server),
                    (_("address"), item.uri),
                    (_("name"), item.name if item.title else ""),
                    (_("type"), describe_type(item)),
                    (
                        _("size"),
                        _("{size:,.0f} bytes, about {size2:,.0f} tokens of text").format(
                            size=item.size, size2=item.size / 4
                        )
                        if item.size
                        else "",
                    ),
                    (_("about"), item.description or ""),
                    (_("watched"), self._describe_watching(server, item)),
                    *describe_annotations(item, resolve_target(self.host.servers.view(server).config).url),
                ]
            )
        )
        if is_large(item):
            text = _("Large resource: {size:,.0f} bytes. Press {resources-preview} to read it.")
            self.query_one(LongText).show(fill_keys(self, text, size=item.size))
            return
        self.query_one(LongText).show("")
        self._start_preview(server, item)

    def _start_preview(self, server: str, item: Resource) -> None:
        self.run_worker(partial(self._load_preview, server, item), exclusive=True, group="preview")

    async def _load_preview(self, server: str, item: Resource) -> None:
        text = self.query_one(LongText)
        text.show(_("reading…"))
        try:
            result = await self.host.features.read_resource(server, item.uri)
        except McpHostError as error:
            text.show(translate_sentence(str(error)))
            return
        pictures = [ImagePart("", entry.blob) for entry in result.contents if entry.blob is not None]
        kinds = [(part, kind) for part in pictures if (kind := detect_image(part)) is not None]
        is_too_big = any(kind.is_too_big for _part, kind in kinds)
        told = describe_saving(server, item.uri) if is_too_big else ""
        text.show("\n\n".join(filter(None, (render_read_result(result), told))))
        self._image_view.show_image(kinds[0][0] if kinds else None)

    def action_preview(self) -> None:
        """Read the selected resource in the background, even if it is large, and show it.

        The user can still move the cursor in the meantime.
        """
        row = self.current_row()
        if row is not None and isinstance(row.value[1], Resource):
            self._start_preview(*row.value)

    def action_save(self) -> None:
        """Open a form that saves the selected resource to a new file."""
        row = self.current_row()
        if row is not None and isinstance(row.value[1], Resource):
            self.app.push_screen(SaveResourceForm(self.host, *row.value))  # pyright: ignore[reportUnknownMemberType]

    def _describe_watching(self, server: str, item: Resource) -> str:
        if not self._is_watched(server, item):
            return ""
        if item.uri in self.host.features.active_uris(server):
            return _("yes: changes are reported")
        return _("interrupted: changes are not reported until the server answers again")

    def _is_watched(self, server: str, item: Resource) -> bool:
        return item.uri in self.host.features.subscribed_uris(server)

    def action_watch(self) -> None:
        """Subscribe to changes to the selected resource, or unsubscribe if already subscribed."""
        row = self.current_row()
        if row is not None and isinstance(row.value[1], Resource):
            self.run_worker(partial(self._toggle_subscription, *row.value), exclusive=True, group="watch")

    async def _toggle_subscription(self, server: str, item: Resource) -> None:
        features = self.host.features
        try:
            if self._is_watched(server, item):
                await features.unsubscribe(server, item.uri)
            else:
                await features.subscribe(server, item.uri)
        except McpHostError as error:
            self.notify(clean(str(error)), severity="warning", markup=False)
        self.reload()

    def handle_resource_change(self, server: str, uri: str) -> None:
        """Reload the preview if *uri* equals, or begins with, the URI of the selected resource of *server*."""
        row = self.current_row()
        if row is not None and row.value[0] == server and isinstance(row.value[1], Resource):
            item = row.value[1]
            if uri == item.uri or uri.startswith(item.uri):
                self._start_preview(server, item)

    def action_attach(self) -> None:
        """Attach the selected resource; if it is a template, ask for the variables first."""
        if row := self.current_row():
            self.open_row(row)

    def open_row(self, row: ListRow) -> None:
        """Close the screen, returning the resource to attach; for a template, ask for the variables first."""
        server, item = row.value
        if isinstance(item, Resource):
            self.dismiss((server, item.uri))
            return

        def given(address: str | None) -> None:
            """Close the screen, and return the expanded URI *address* as its result.

            Do nothing if *address* is None because the user canceled the form.
            """
            if address is not None:
                self.dismiss((server, address))

        self.app.push_screen(ResourceTemplateForm(self.host, server, item), given)  # pyright: ignore[reportUnknownMemberType]


class ResourceTemplateForm(ArgumentsForm[str]):
    """Form for the variables of a resource template; its result is the expanded URI, or None.

    The result is None if the user cancels. If a template has no variables, or its syntax is invalid, the user edits the
    template itself as a line of text.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "attach", show=False)]
    DEFAULT_CSS = """
    ResourceTemplateForm #address { border: none; height: 1; background: $surface; padding: 0 1; margin: 1 0; }
    """

    def __init__(self, host: "Host", server: str, template: ResourceTemplate) -> None:
        super().__init__()
        self.host, self.server, self.template = host, server, template
        try:
            self.variables = template_variables(template.uri_template)
        except UsageError:
            self.variables = ()

    @property
    def _has_completion(self) -> bool:
        return bool(self.variables) and self.host.features.can_complete(self.server)

    def headline(self) -> str:
        """Return the title, which names the server and the template."""
        return f"{self.server} · {self.template.title or self.template.name or self.template.uri_template}"

    def body(self) -> ComposeResult:
        """Yield the template's description, an input for each variable, and the expanded URI."""
        yield from self.describe(self.template.description)
        if self.variables:
            yield SteppedColumn(self._variable_widgets(), widget_id="fields")
            yield from self.compose_made()
        else:
            # A URI has one line of visible characters, so the user sees exactly what will be requested.
            yield OrderedInput(clean_line(self.template.uri_template, 2000), id="address", compact=True)

    def _variable_widgets(self) -> Iterator[Widget]:
        for number, name in enumerate(self.variables):
            yield Static(Content.styled(clean_line(name, 80), "bold"), markup=False)
            yield SuggestionInput(f"value-{number}", partial(self._suggest, name) if self._has_completion else None)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return (("attach", _("Attach")), ("leave", _("Back")))

    def input_hints(self) -> str:
        """Return the key hints; hints about suggestions are included only if the server supports completion."""
        keys = _("enter next · ctrl+s attach · esc back") if self.variables else _("enter or ctrl+s attach · esc back")
        return _(SuggestionInput.HINT) + keys if self._has_completion else keys

    def on_mount(self) -> None:
        """Focus the first input and show the expanded URI."""
        self.query(Input).first().focus()
        self._show_address()

    async def _suggest(self, name: str, value: str) -> Completion:
        others = {key: given for key, given in self.values().items() if key != name}
        ref = ResourceTemplateReference(self.template.uri_template)
        return await self.host.features.complete(self.server, ref, name, value, others)

    def values(self) -> dict[str, str]:
        """Return the entered values, keyed by variable name; an empty input leaves its variable undefined."""
        texts = (one.value for one in self.query("#fields SuggestionLine").results(Input))
        named = zip(self.variables, texts, strict=False)  # the last inputs may not be mounted yet
        return {name: text for name, text in named if text}

    def on_input_changed(self) -> None:
        """Show the URI that results from the current values."""
        if self.variables:
            self._show_address()

    def _show_address(self) -> None:
        if not self.variables:
            return
        made = self._expand_template()
        # Never truncated, so that the user sees exactly what will be requested.
        text = Content.styled(clean(made), "$accent") if isinstance(made, str) else Content.styled(str(made), "$error")
        self.show_made(text)

    def _expand_template(self) -> "str | UsageError":
        try:
            return expand_template(self.template.uri_template, self.values())
        except UsageError as error:
            return error

    async def wait_for_fields(self) -> None:
        """Wait until the inputs of all variables are mounted."""
        for column in self.query(SteppedColumn):
            await column.wait_whole()

    def moves_on_enter(self, field: Input) -> bool:
        """Return whether Enter in *field* focuses the next input, which is true for all inputs except the last."""
        return bool(self.variables) and field.id != f"value-{len(self.variables) - 1}"

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the form with the expanded URI when Enter is pressed in the last input."""
        event.stop()
        self._finish()

    def action_attach(self) -> None:
        """Close the form with the expanded URI, once the inputs of all variables are mounted."""
        self.run_worker(self._attach_when_complete, exclusive=True)

    async def _attach_when_complete(self) -> None:
        await self.wait_for_fields()
        self._finish()

    def _finish(self) -> None:
        """Close the form with the expanded URI.

        If a required variable is empty, show an error and focus its input.
        """
        if not self.variables:
            if address := self.query_one("#address", Input).value.strip():
                self.dismiss(address)
            return
        needed = [name for name in required_variables(self.template.uri_template) if name not in self.values()]
        if needed:
            self.show_fault(_("{needed} is required.").format(needed=clean_line(needed[0], 60)))
            self.query_one(f"#value-{self.variables.index(needed[0])}").focus()
            return
        made = self._expand_template()
        if isinstance(made, str):
            self.dismiss(made)


def suggest_name(resource: Resource) -> str:
    """Return a file name without a folder, derived from the resource's URI and media type."""
    import mimetypes

    last = resource.uri.partition("?")[0].rpartition("/")[2] or resource.name
    name = re.sub(r"[^\w.-]+", "-", last[:1_000]).strip("-.")[:_MAX_NAME] or "resource"
    return name if "." in name else name + (mimetypes.guess_extension(resource.mime_type or "") or "")


class SaveResourceForm(SaveFileForm):
    """Form that reads a resource and writes its content to a new file."""

    def __init__(self, host: "Host", server: str, resource: Resource) -> None:
        super().__init__()
        self._host, self._server, self._resource = host, server, resource

    def headline(self) -> str:
        """Return the title."""
        return _("Save the resource")

    def description(self) -> str:
        """Return a line that names the server and the URI of the resource."""
        return clean_line(f"{self._server} · {self._resource.uri}", 500)

    def suggest_name(self) -> str:
        """Return a file name derived from the resource's URI and media type."""
        return suggest_name(self._resource)

    async def write(self, name: str) -> str:
        """Read the resource, write its content to the file *name*, and return a message to show to the user.

        Raises McpHostError if the resource cannot be read or does not have exactly one part, or if the file cannot be
        written.
        """
        result = await self._host.features.read_resource(self._server, self._resource.uri)
        content = await anyio.to_thread.run_sync(decode_contents, result.contents)
        return await anyio.to_thread.run_sync(write_new_file, resolve_file_name(name), content)
