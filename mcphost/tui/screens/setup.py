"""Setup screen for choosing a model found on this machine, and servers to import from other MCP hosts."""

from functools import partial
from shlex import join
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.errors import McpHostError
from mcphost.host.api_keys import PLACE_LABELS
from mcphost.llm.api_key_formats import has_api_key_prefix, is_long_word, may_become_api_key
from mcphost.llm.model_catalog import PROVIDER_TITLES
from mcphost.sanitize import sanitize
from mcphost.serialization import Struct
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui import input_guard
from mcphost.tui.input_guard import FOCUS_KEYS
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line, pad_cells
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.model_use import find_address
from mcphost.tui.widgets.target_views import TargetDetails, TargetList, TargetOption
from mcphost.tui.widgets.text_inputs import OrderedInput, run_key_binding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcphost.config.schema import ModelConfig
    from mcphost.host.servers.import_plan import ImportCandidate
    from mcphost.host.setup import Setup, SetupOffers
    from mcphost.llm.model_finder import AvailableModel

_ABOUT = N_("Found on this machine. Nothing here starts until you press Enter.")
_CUT = N_("rows cut off by “…” are asked about later")
_NOTHING = N_(
    "No keys, local model servers or servers of other hosts were found. Paste a key, or skip: tools work "
    "without a model."
)
_KEY_GIVEN = N_("You entered an API key as a message. Enter checks and stores it; Esc discards it.")
_NO_MODEL = N_("No model for now")
_OTHER_ADDRESS = N_("Another address… (a gateway, vLLM)")
_MAX_TARGET_LENGTH = 2_000
_MAX_NOTES_LENGTH = 100
_MAX_FILES = 2
"""Maximum number of files in the current folder that are named."""
_MAX_BOX_WIDTH = 110
_BOX_WIDTH = 6
"""Width in cells of the border and the padding of the box."""

_ROOMY_HEIGHT = 28
_FIXED_ROWS = 17
_SMALL_FIXED_ROWS = 13
"""Maximum number of rows outside the lists; _FIXED_ROWS is the number for larger screens. No text wraps."""
_DETAILS_ROWS = 4
_SMALL_DETAILS_ROWS = 2
"""Number of fixed rows for a server's details; they get more if the list of servers leaves rows free."""
_MIN_SERVER_ROWS = 3
"""Minimum number of rows that the list of servers keeps when long details need space."""
_KEY_ROWS = 2
"""Number of rows of the API key input, which takes them from the lists if both are shown."""
_MIN_NAME_WIDTH = 12
"""Minimum width in cells of the column of servers' names, however long the notes are."""
_MIN_HOST_WIDTH = 11
"""Minimum width in cells of the column of hosts, which shows "Claude Code" to its end."""

_KEY_LABEL = N_("API key (Anthropic, OpenAI, Gemini and others)")
_MAX_PROVIDER_ROWS = 5


class SetupChoice(Struct, frozen=True):
    """The choices of the user on the setup screen: a model, or None for no model, and the servers to add.

    If the user typed a message instead of choosing, `typed` is its text, and all other fields have their defaults.
    """

    model: "ModelConfig | None" = None
    servers: "tuple[ImportCandidate, ...]" = ()
    seen: frozenset[str] = frozenset()
    """Names of the servers whose full command line or URL has been on the screen."""

    typed: str = ""
    is_model_missing: bool = False
    """Whether the user stored the API key of a provider without a default model, and has yet to choose a model."""

    is_address_wanted: bool = False
    """Whether the user wants to enter the address of a model."""


class SetupScreen(FormScreen[SetupChoice]):
    """Setup screen; its result is a SetupChoice, or None if the user skips the setup.

    If mcphost opened the screen automatically (*is_invited* is false), the user may be typing a message. In this case,
    models and servers can be selected only after a click, or after Tab, Enter, an arrow key or Ctrl+A. Until then,
    typing closes the screen and continues in the composer; only text that may be an API key goes to the key input.
    """

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "start", show=False, priority=True),
        Binding("ctrl+a", "tick_all", show=False, priority=True, id="setup-select-all"),
    ]
    DEFAULT_CSS = """
    SetupScreen #box { width: 95%; max-width: 110; max-height: 100%; }
    SetupScreen .heading { color: $accent; text-style: bold; margin: 1 0 0 0; }
    SetupScreen OptionList { height: auto; max-height: 7; border: none; padding: 0; background: $surface;
                             text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1; }
    SetupScreen OptionList:focus { background-tint: transparent; }
    SetupScreen OptionList:blur > .option-list--option-highlighted { background: $surface; color: $text; }
    SetupScreen #providers { max-height: 5; }
    SetupScreen #target { color: $muted; margin: 0 0 0 1; }
    SetupScreen.small .heading { margin: 0; }
    SetupScreen Input { height: 1; border: none; padding: 0 1; background: $surface; }
    """

    def __init__(self, setup: "Setup", offers: "SetupOffers", *, is_invited: bool = True, key: str = "") -> None:
        """Create the screen with the models and servers in *offers*.

        *is_invited* is true if the user opened the screen. *key* is an API key that the user has already entered, or ""
        if there is none.
        """
        super().__init__()
        self._setup = setup
        self._given_key = key
        self._is_entered = is_invited
        self._entered_at = float("-inf")
        self._typed = ""
        self._typed_at = float("-inf")
        self._is_typed_handled = True
        self._models = list(offers.models)
        self._files = _describe_files(offers.project_files)
        self._servers = [candidate for candidate in offers.servers if candidate.state == "new"]
        self._model_index = 0
        self._ticked: set[int] = set()
        self._seen: set[int] = set()

    def headline(self) -> str:
        """Return the title."""
        return _("Set up mcphost")

    def body(self) -> ComposeResult:
        """Yield the lists of models and servers, and a note about configuration files in the current folder.

        If no models were found, or the user has already entered an API key, the list of models is followed by an input
        for the key.
        """
        about = _ABOUT if self._models or self._servers else _NOTHING
        yield Static(_(_KEY_GIVEN if self._given_key else about), id="about", markup=False)
        yield Static(_("Model"), classes="heading", markup=False)
        yield OptionList(*self._model_options(), id="models", markup=False, compact=True)
        if self._given_key or not self._models:
            yield Static(_(_KEY_LABEL), id="key-label", markup=False)
            words = _("paste a key, then press Enter")
            # Selecting on focus would let the rest of a paste replace its beginning.
            yield OrderedInput(self._given_key, words, password=True, select_on_focus=False, id="key", compact=True)
        if self._servers:
            yield Static(self._server_heading(), id="servers-heading", classes="heading", markup=False)
            yield TargetList(*self._server_options(), seen=self._seen, id="servers")
            yield TargetDetails(seen=self._seen, id="target")
        if self._files:
            yield Static(Content.styled(self._files, "$muted"), id="files", markup=False)

    def _server_heading(self) -> str:
        is_cut = any(option.width >= self._text_width() - 1 for option in self._server_options())
        return _("Servers of other hosts") + (f" · {_(_CUT)}" if is_cut else "")

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return (("leave", _("Skip")), ("start", _("Start")))

    def key_hints(self) -> str:
        """Return the line that explains the keys.

        The line changes when selection is enabled.
        """
        if not self._is_entered:
            every = f" · {every}" if (every := self._all_servers_hint()) else ""
            return _("tab or enter choose{every} · esc skip, or just type your message").format(every=every)
        every = f"{every} · " if (every := self._all_servers_hint()) else ""
        return _("{lists}{every}enter start · esc skip").format(lists=_("↑↓ space choose · tab · "), every=every)

    def _all_servers_hint(self) -> str:
        hint = keys_in_use(self).fill(_("{setup-select-all} all servers"), in_sentence=False)
        return hint if self._servers else ""

    def on_mount(self) -> None:
        """Focus the first list or input, unless mcphost opened the screen automatically."""
        if self._is_entered:
            self._focus_first()
        self.run_worker(self._add_late_models, group="late models")
        if self.query("#key-label"):
            self.run_worker(self._show_key_place, group="key place")

    async def _show_key_place(self) -> None:
        """Show in the label of the API key input where the key will be stored."""
        label, place = _(_KEY_LABEL), _(PLACE_LABELS[await self._setup.api_keys.find_place()])
        self.query_one("#key-label", Static).update(_("{label}; {place}").format(label=label, place=place))

    async def _add_late_models(self) -> None:
        """Add the models of local model servers that respond late, without changing the selection or the focus."""
        from mcphost.llm.model_finder import MAX_PROPOSED_MODELS

        found = (await self._setup.find_late_models(self._models))[:MAX_PROPOSED_MODELS]
        if not found:
            return
        first, count = len(self._models), len(self._models) + len(found)
        self._models += found
        if self._model_index == first:
            self._model_index = count  # the entry for no model
        elif self._model_index > first:
            self._model_index = count + 1  # the entry for another address
        for lines in self.query("#models").results(OptionList):
            at = lines.highlighted
            self._redraw(lines, at if at is None or at < first else at + len(found))
        if first == 0:
            self.query_one("#models", OptionList).highlighted = None
            self.query_one("#about", Static).update(_(_ABOUT))
        self.on_resize()

    def on_resize(self) -> None:
        """Divide the available height between the lists of models and servers."""
        is_small = self.size.height < _ROOMY_HEIGHT
        self.set_class(is_small, "small")
        free = self.size.height - (_SMALL_FIXED_ROWS if is_small else _FIXED_ROWS)
        free -= _KEY_ROWS if self._given_key and self._models else 0
        rows = _MAX_PROVIDER_ROWS if self.query("#providers") else len(self._models) + 2
        models = max(2, min(rows, free // 3 if self._servers else free, 8))
        for lines in self.query("#models").results(OptionList):
            lines.styles.max_height = models
        free -= models + self._count_wrapped_rows()
        for heading in self.query("#servers-heading").results(Static):
            heading.update(Content(self._server_heading()))
        for lines in self.query("#servers").results(OptionList):
            details = _SMALL_DETAILS_ROWS if is_small else _DETAILS_ROWS
            needed = max(self._details(candidate)[0].get_height({}, self._text_width() - 1)
                         for candidate in self._servers)  # fmt: skip
            more = max(0, min(needed - details, free - min(len(self._servers), _MIN_SERVER_ROWS)))
            self.query_one(TargetDetails).styles.max_height = details + more
            lines.styles.max_height = max(2, free - more)
            self._redraw(lines, lines.highlighted)

    def _count_wrapped_rows(self) -> int:
        """Return how many rows the screen's texts need beyond those that the layout reserves for them.

        The layout reserves one row for each text, but longer texts wrap on a narrow screen. It reserves no row for the
        note that names configuration files in the current folder.
        """
        texts = (_(_ABOUT), self.key_hints(), self._server_heading())
        rows = sum(Content(text).get_height({}, self._text_width()) - 1 for text in texts)
        return rows + (Content(self._files).get_height({}, self._text_width()) if self._files else 0)

    def _text_width(self) -> int:
        """Return the width in cells that is available for text, computed from the width of the screen.

        The width of a widget is not used, because a widget has no width before the first layout.
        """
        return max(2, min(self.size.width * 95 // 100, _MAX_BOX_WIDTH) - _BOX_WIDTH)

    def _focus_first(self) -> None:
        if self._given_key:
            self.query_one("#key").focus()
            return
        self.query_one("#models" if self._models else "#servers" if self._servers else "#key").focus()

    def on_descendant_focus(self) -> None:
        """Enable selection after a click has focused a widget of this screen."""
        self._enter()

    def _enter(self) -> None:
        """Enable the selection of models and servers, and update the key hints.

        Until then, typing closes the screen and continues in the composer.
        """
        if not self._is_entered:
            self._is_entered = True
            self.query_one("#keys", Static).update(Content(self.key_hints()))
            self.on_resize()

    def on_paste(self, event: events.Paste) -> None:
        """Insert pasted text into the API key input, if there is one and selection is not enabled yet.

        A pasted URL closes the screen and goes to the composer instead. Once selection is enabled, do nothing.
        """
        if not self._is_entered and find_address(event.text):
            event.stop()
            self.dismiss(SetupChoice(typed=event.text.strip()))
            return
        for field in [] if self._is_entered else self._enter_key_input():
            event.stop()
            field.value = event.text.strip()
            field.cursor_position = len(field.value)

    def _model_options(self) -> list[Option]:
        width = max((cell_len(offer.config.name) for offer in self._models), default=0)
        lines = [
            f"{pad_cells(clean_line(offer.config.name, 60), min(60, width))}  "
            f"{_tools_note(offer)}{clean_line(translate_sentence(offer.origin), 60)}"
            for offer in self._models
        ]
        lines += [_(_NO_MODEL), _(_OTHER_ADDRESS)]
        marks = ["●" if at == self._model_index else "○" for at in range(len(lines))]
        return [Option(Content(f"{mark} {line}")) for mark, line in zip(marks, lines, strict=True)]

    def _server_options(self) -> list[TargetOption]:
        """Return a line for each server: its name, the MCP hosts that use it, notes on its import, and its target.

        The target is the command line or URL. It comes last, because the end of the line may be cut off.
        """
        if not self._servers:
            return []
        notes = [_describe_notes(candidate) for candidate in self._servers]
        free = self._text_width() - 8 - max(map(cell_len, notes))  # without the scrollbar, the mark and three gaps
        names = [clean_line(candidate.name, 40) for candidate in self._servers]
        hosts = [clean_line(join_list(candidate.hosts), 80) for candidate in self._servers]
        host_width = min(max(map(cell_len, hosts)), max(_MIN_HOST_WIDTH, free - _MIN_NAME_WIDTH))
        width = min(max(map(cell_len, names)), max(_MIN_NAME_WIDTH, free - host_width))
        lines: list[TargetOption] = []
        for at, candidate in enumerate(self._servers):
            mark = "■" if at in self._ticked else "□"
            name = f"{mark} {_fit_cells(names[at], width)}  {_fit_cells(hosts[at], host_width)}  "
            note, target = f"{notes[at]}  " if notes[at] else "", _describe_target(candidate)
            content = Content.assemble(name, (note, "$warning"), (target, "$muted"))
            lines.append(TargetOption(content, content.cell_length))
        return lines

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Handle a click on a list entry: select a model, or a provider for the API key, or toggle a server."""
        event.stop()
        self._choose(event.option_list, event.option_index)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the full command line or URL of the server under the cursor."""
        event.stop()
        if event.option_list.id == "servers":
            self._show_target(event.option_index)

    async def on_key(self, event: events.Key) -> None:
        """Handle typed text, and keys that enable selection; once it is enabled, call `_handle_entered_key` instead."""
        if self._is_entered:
            self._handle_entered_key(event)
        elif event.key in FOCUS_KEYS or keys_in_use(self).action_of(event.key) == "answer":
            event.stop()
            self._enter()
            self._focus_first()
        elif event.is_printable and event.character:
            event.stop()
            self._typed += event.character
            self._typed_at = input_guard.clock()
            if self._is_typed_handled:
                self._is_typed_handled = False
                self.call_later(self._handle_typed)
        elif self._typed:
            for field in self._enter_key_input():
                await run_key_binding(field, event)

    def _handle_entered_key(self, event: events.Key) -> None:
        """Handle a key once the screen accepts choices.

        In a list, Space chooses the item under the cursor. In an input, Up and Down move the focus to the previous or
        next widget. Any other character goes to the API key input, unless a list has the focus.
        """
        if event.key in {"up", "down"} and isinstance(self.focused, Input):
            event.stop()
            (self.focus_previous if event.key == "up" else self.focus_next)()
        elif event.key == "space" and isinstance(self.focused, OptionList):
            if self.focused.highlighted is not None:
                self._choose(self.focused, self.focused.highlighted)
        elif event.is_printable and event.character and not isinstance(self.focused, OptionList):
            for field in self.query("#key").results(Input):
                event.stop()
                field.insert_text_at_cursor(event.character)
                self.set_focus(field)

    def _handle_typed(self) -> None:
        """Show typed text in the key input if it may be an API key; otherwise, pass it to the composer and close.

        The text may also have been pasted, because not every terminal supports bracketed paste.
        """
        for field in self.query("#key").results(Input):
            if not find_address(self._typed) and (may_become_api_key(self._typed) or is_long_word(self._typed)):
                self._is_typed_handled = True
                field.value = self._typed
                field.cursor_position = len(field.value)
                return
        self.dismiss(SetupChoice(typed=self._typed))

    def _enter_key_input(self) -> list[Input]:
        """Enable selection and focus the API key input; return a list with the input, or [] if there is none."""
        fields = list(self.query("#key").results(Input))
        for field in fields:
            self._enter()
            self.set_focus(field)
        return fields

    def _choose(self, lines: OptionList, index: int) -> None:
        """Select the model, tick or untick the server, or store the API key for the provider at *index* of *lines*."""
        if lines.id == "providers":
            lines.highlighted = index
            self._start_with_entered_key()
            return
        if lines.id == "models":
            self._model_index = index
        else:
            self._ticked ^= {index}
        self._redraw(lines, index)

    def _redraw(self, lines: OptionList, highlighted: int | None) -> None:
        lines.set_options(self._model_options() if lines.id == "models" else self._server_options())
        lines.highlighted = highlighted

    def _show_target(self, index: int) -> None:
        """Show the notes and the target (command line or URL) of the server at *index*.

        Once the complete target has been drawn, the server counts as seen by the user.
        """
        content, is_whole = self._details(self._servers[index])
        self.query_one(TargetDetails).show(content, index if is_whole else None)

    def _details(self, candidate: "ImportCandidate") -> tuple[Content, bool]:
        """Return a text with the notes and the target of a server, and whether it contains the whole target."""
        target = _describe_target(candidate)
        notes = clean_line(_describe_notes(candidate, with_names=True), _MAX_NOTES_LENGTH)
        shown = clean_line(target, _MAX_TARGET_LENGTH)
        return Content(f"{notes} · {shown}" if notes else shown), shown == target

    def action_tick_all(self) -> None:
        """Tick all servers that are enabled in the other MCP host; if they are already ticked, untick all servers."""
        self._enter()
        for servers in self.query("#servers").results(OptionList):
            every = {at for at, candidate in enumerate(self._servers) if not candidate.found.is_disabled}
            self._ticked = set() if every <= self._ticked else self._ticked | every
            servers.focus()
            self._redraw(servers, servers.highlighted)

    def action_start(self) -> None:
        """Close the screen with the user's choices, after storing an entered API key.

        In the list of models, the entry under the cursor is chosen first. On the Skip button, the result is None.

        Before selection is enabled, submit the typed text; if there is none, only enable selection and focus the Start
        button. Because Enter may be held down, a call that follows such a call within GUARD_SECONDS is ignored.
        """
        now = input_guard.clock()
        if self._typed and not self._is_entered:
            self._submit_typed(is_pasted=now - self._typed_at < input_guard.GUARD_SECONDS)
            return
        if not self._is_entered:
            self._enter()  # the first Enter may have been meant for the chat
            self.query_one("#start").focus()
            self._entered_at = now
            return
        if now - self._entered_at < input_guard.GUARD_SECONDS:
            self._entered_at = now  # the key is held down
            return
        match self.focused:
            case Input():
                raise SkipAction  # the input submits itself once it has received all earlier keys
            case OptionList(id="models") as models:  # which may not have handled an earlier arrow key yet
                models.call_later(self._start_with_highlighted_model, models)
            case Button(id="leave"):
                self.dismiss(None)
            case _:
                self._start_with_entered_key()

    def _start_with_highlighted_model(self, models: OptionList) -> None:
        if models.highlighted is not None:
            self._choose(models, models.highlighted)
        self._start_with_entered_key()

    def _submit_typed(self, *, is_pasted: bool) -> None:
        """Store the typed API key and close the screen; pass text that is not an API key to the composer.

        If *is_pasted* is true, the Enter key was probably a line break in pasted text. The key is then only shown in
        its input, and the user must press Enter again to store it.
        """
        is_key = not find_address(self._typed) and (has_api_key_prefix(self._typed) or is_long_word(self._typed))
        if not self.query("#key") or not is_key:
            self.dismiss(SetupChoice(typed=self._typed))
            return
        self._enter_key_input()
        if not is_pasted:
            self._start_with_entered_key()

    def _start_with_entered_key(self) -> None:
        """End the setup with the text in the key input: store an API key, or pass a URL to the composer.

        If the input is empty, end the setup with the selected model.
        """
        key = next((line.value.strip() for line in self.query("#key").results(Input)), "")
        if find_address(key):
            self.dismiss(SetupChoice(typed=key))  # the chat offers to use a model at this address
        elif key:
            self.run_worker(partial(self._start_with_key, key), exclusive=True)
        else:
            self._finish(self._chosen_model())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Store the entered API key and end the setup; without a key, end it with the selected model."""
        event.stop()
        self._start_with_entered_key()

    def _chosen_model(self) -> "ModelConfig | None":
        return self._models[self._model_index].config if self._model_index < len(self._models) else None

    async def _start_with_key(self, key: str) -> None:
        provider = self._setup.api_keys.recognize_provider(key) or self._chosen_provider()
        if not provider:
            await self._ask_for_provider()
            return
        try:
            offer = await self._setup.api_keys.store_for_provider(key, provider)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self._finish(None if offer is None else offer.config, is_model_missing=offer is None)

    def _chosen_provider(self) -> str:
        index = next((lines.highlighted for lines in self.query("#providers").results(OptionList)), None)
        return "" if index is None else list(PROVIDER_TITLES)[index]

    async def _ask_for_provider(self) -> None:
        """Show a list of providers below the API key input, and ask the user to choose one.

        No provider is preselected, so that the key is not sent to the wrong provider.
        """
        self.show_fault(_("This key does not show its provider. Choose it with ↓, then press Enter."))
        if not self.query("#providers"):
            providers = OptionList(*PROVIDER_TITLES.values(), id="providers", markup=False, compact=True)
            await self.mount(providers, after="#key")
            self.query_one("#keys", Static).update(Content(self.key_hints()))
            self.on_resize()
        providers = self.query_one("#providers", OptionList)
        providers.highlighted = None
        providers.focus()

    def _finish(self, model: "ModelConfig | None", *, is_model_missing: bool = False) -> None:
        servers = tuple(self._servers[at] for at in sorted(self._ticked))
        seen = frozenset(self._servers[at].name for at in self._seen)
        wants_address = model is None and not is_model_missing and self._model_index > len(self._models)
        choice = SetupChoice(model, servers, seen, is_model_missing=is_model_missing, is_address_wanted=wants_address)
        self.dismiss(choice)


def _fit_cells(text: str, width: int) -> str:
    return pad_cells(set_cell_size(text, min(width, cell_len(text))), width)


def _describe_files(files: "Sequence[tuple[str, str]]") -> str:
    text = _("Also in this folder: {file} (mcphost servers import {host})")
    lines = [text.format(file=clean_line(file, 60), host=host) for file, host in files[:_MAX_FILES]]
    return "\n".join([*lines, "…"] if len(files) > _MAX_FILES else lines)


def _describe_notes(candidate: "ImportCandidate", *, with_names: bool = False) -> str:
    """Return notes about importing a server, or "" if there are none.

    The notes state that secrets are stored separately, and that the server is disabled in the other MCP host. If
    *with_names* is true, they also contain the names of the secrets.
    """
    secrets = _("secrets stored apart") if candidate.secrets else ""
    if candidate.secrets and with_names:
        secrets = _("its secrets are stored apart: {names}").format(names=join_list(candidate.secrets))
    disabled = _("disabled there") if candidate.found.is_disabled else ""
    if disabled and with_names:
        disabled = _("disabled there; stays disabled")
    return " · ".join(filter(None, (secrets, disabled)))


def _describe_target(candidate: "ImportCandidate") -> str:
    """Return a server's sanitized command line or URL, or "" if its entry is invalid.

    The text also contains the names of the server's environment variables or headers and, if the entry sets one,
    the working directory.
    """
    server = candidate.server
    if server is None:
        return ""
    names = join_list(sorted(server.env) if server.is_stdio else sorted(server.headers))
    target = join(masked_argv(server)) if server.is_stdio else masked_url(server)
    if server.is_stdio and candidate.entry.get("cwd"):
        target = _("{target} in {folder}").format(target=target, folder=server.cwd)
    return sanitize(
        _("{target} (with {names})").format(target=target, names=names) if names else target, keep_newlines=False
    )


def _tools_note(offer: "AvailableModel") -> str:
    return _("uses no tools · ") if offer.supports_tools is False else ""
