"""Base class for list screens, which have a search line, a list, a details pane and a key bar."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.css.query import QueryType
from textual.screen import Screen
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from mcphost.errors import McpHostError, SignInRequired, SignInUnchanged, join_sentences
from mcphost.host.server_views import find_drawable
from mcphost.protocol.base import Icon
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.entry_list import Entries, EntryGroup, EntryList, EntryOption
from mcphost.tui.widgets.image_view import ImageView
from mcphost.tui.widgets.key_values import layout_pairs
from mcphost.tui.widgets.laid_out_once import FlexColumn, FlexRow, StaticText
from mcphost.tui.widgets.long_text import LongText, Section
from mcphost.tui.widgets.one_line_text import OneLineText
from mcphost.tui.widgets.screen_lifecycle import ScreenLifecycle
from mcphost.tui.widgets.stable_scroll import StableScroll
from mcphost.tui.widgets.status_bars import KeyBar
from mcphost.tui.widgets.text_inputs import OrderedInput

_MAX_SHOWN = 500
ICON_ROWS = 4


class ListRow(NamedTuple):
    """Entry in a list screen: the listed object, a title, a detail line and a colored symbol.

    `group` is the name of the group to which the entry belongs, such as its server; the entries of a group are listed
    one after another, below a heading if there are several groups.
    """

    value: Any
    title: str
    detail: str
    mark: str = ""
    mark_style: str = "$accent"
    group: str = ""


class SearchLine(OrderedInput):
    """Search line of a list screen.

    Up and Down move the list's cursor while the search line keeps the focus.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "screen.move_cursor('down')", show=False),
        Binding("up", "screen.move_cursor('up')", show=False),
    ]


class _Title(OneLineText):
    """Title line, which wraps onto several rows if a screen's style sheet gives it an automatic height."""

    def update(self, content: VisualType = "", *, layout: bool = False) -> None:
        """Show *content*; lay out the screen only if the title's height depends on its content."""
        super().update(content, layout=layout or self.styles.is_auto_height)


class _DetailsText(LongText):
    """Text below the name-value pairs in the details pane; while it is empty, the pairs can use its rows."""

    def show(self, text: str, sections: Sequence[Section] = (), *, language: str = "") -> None:
        super().show(text, sections, language=language)
        self.screen.set_class(not self.text, "no-text")


class ListScreen(ScreenLifecycle, Screen[Any]):
    """Searchable list, with the selected entry's details beside the list or, on a narrow screen, below it."""

    TITLE_TEXT: ClassVar[str] = ""
    EMPTY_TEXT: ClassVar[str] = N_("Nothing here yet.")
    # Whether a search can also find entries that are not listed; otherwise, an empty list has no search line.
    searches_unlisted: bool = False
    AUTO_FOCUS: ClassVar[str] = "#entries"  # pyright: ignore[reportIncompatibleVariableOverride]
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    # Actions of KEY_ROWS that also work if the list is empty.
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset()
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        # Handled before later keys: over a slow connection, keys arrive together, and letters would act on the list.
        Binding("ctrl+f", "search", show=False, priority=True, id="list-search"),
        Binding("slash", "search", show=False),
    ]
    DEFAULT_CSS = """
    ListScreen { background: $background; color: $text; layout: vertical; }
    ListScreen #head { height: 1; background: $surface; padding: 0 2; }
    ListScreen Input { margin: 1 2 0 2; background: $panel; border: none; height: 1; padding: 0 1; }
    ListScreen #halves { height: 1fr; margin: 1 2 0 2; }
    ListScreen EntryList { width: 2fr; max-width: 60; height: 1fr; }
    ListScreen #top-heading { height: 1; background: $surface; text-wrap: nowrap; text-overflow: ellipsis; }
    ListScreen #hidden-entries { height: 1; padding: 0 3; }
    ListScreen #entries {
        width: 1fr; height: 1fr; border: none; background: $surface; padding: 0;
        text-wrap: nowrap; text-overflow: ellipsis;
        scrollbar-size-vertical: 1;
    }
    ListScreen #entries:focus { background-tint: transparent; }
    ListScreen #side { width: 3fr; height: 1fr; margin: 0 0 0 2; }
    ListScreen #icon { margin: 0 1 1 1; }
    ListScreen.narrow #icon { max-height: 2; }
    ListScreen #facts { height: auto; max-height: 50%; margin-bottom: 1; scrollbar-size: 0 1;
                     scrollbar-gutter: stable; }
    ListScreen #facts:focus, ListScreen LongText:focus { background: $surface; }
    ListScreen #about { height: auto; color: $text; padding: 0 1; }
    ListScreen LongText { height: 1fr; background: $background; }
    ListScreen.bare LongText, ListScreen.no-text LongText { display: none; }
    ListScreen.bare #facts, ListScreen.no-text #facts { max-height: 100%; }
    ListScreen.empty EntryList { display: none; }
    ListScreen.empty LongText:focus { background: $background; }
    ListScreen.narrow #search { margin: 0 2; }
    ListScreen.narrow #halves { layout: vertical; }
    ListScreen.narrow EntryList { width: 1fr; max-width: 100%; height: auto; }
    ListScreen.narrow #entries { height: auto; }
    ListScreen.narrow #side { width: 1fr; height: 1fr; margin: 0; }
    ListScreen.narrow #facts { max-height: 75%; }
    ListScreen.narrow.bare #facts, ListScreen.narrow.no-text #facts { max-height: 100%; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[ListRow] = []
        self.visible_rows: list[ListRow] = []
        self._found_count = 0
        self._group_sizes: Mapping[str, int] = {}
        self._search_texts: tuple[list[ListRow], list[str]] = ([], [])
        self._about_content: Content | Sequence[tuple[str, str | Content]] = Content("")
        self._has_missed_change = False  # of a server, while another page hid this one
        self._missed_resources: set[tuple[str, str]] = set()

    # -- for subclasses

    def empty_text(self) -> str:
        """Return the text that is shown in place of an empty list."""
        return keys_in_use(self).fill(_(self.EMPTY_TEXT))

    def warning(self) -> str:
        """Return a warning to show beside the title of a list with entries; by default, return ""."""
        return ""

    def legend(self) -> Content:
        """Return an explanation of colors and bars to show beside the title; by default, it is empty."""
        return Content("")

    def load(self) -> Sequence[ListRow]:
        """Return all entries, including those that do not match the search."""
        return ()

    def open_row(self, row: ListRow) -> None:
        """Open the entry that the user clicked, or on which the user pressed Enter; by default, do nothing."""

    def show_details(self, row: ListRow) -> None:
        """Show the details of the entry under the cursor; by default, do nothing."""

    # -- layout and events

    def compose(self) -> ComposeResult:
        """Create the title, the search line, the list, the details pane and the key bar."""
        self._set_narrow(self.app.size.width, update=False)  # pyright: ignore[reportUnknownMemberType]
        yield _Title(Content.assemble((_(self.TITLE_TEXT), "bold $accent")), id="head", markup=False)
        yield SearchLine(placeholder=_("Search"), id="search", compact=True)
        with FlexRow(id="halves"):
            yield EntryList()
            with FlexColumn(id="side"):
                yield ImageView(rows=ICON_ROWS, columns=2 * ICON_ROWS, id="icon")
                with StableScroll(id="facts", can_focus=False):
                    yield StaticText("", id="about", markup=False)
                yield _DetailsText("", id="text")
        yield KeyBar(self._key_bar_items(), rows=2)

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        """Return a (key, label, action) tuple for each key that works in the current state of the list."""
        is_searched = self._clears_search()
        back = ("esc", _("clear search") if is_searched else _("back"), "screen.leave")
        if not self.entries and not is_searched:
            return (*(key for key in self.KEY_ROWS if key[2] in self.ACTIONS_WITHOUT_ENTRY), back)
        return (*self.KEY_ROWS, ("tab", _("read"), "app.focus_next"), ("ctrl+f", _("search"), "screen.search"), back)

    def update_key_bar(self) -> None:
        """Show in the key bar the keys that currently work.

        While the search line has the focus, letters and Space are omitted, because they enter text.
        """
        keys = tuple(row for _keys, row in keys_in_use(self).resolve_rows(self._key_bar_items(), self._bindings))
        if isinstance(self.focused, SearchLine):
            keys = tuple(key for key in keys if key[0] != "space" and any(len(name) > 1 for name in key[0].split()))
        self.query_one(KeyBar).show(keys)
        self._update_search()

    def _update_search(self) -> None:
        """Show the search line if it contains text, has the focus or can find entries; otherwise, hide it.

        If no widget has the focus and the list is not empty, focus the list.
        """
        search = self.query_one("#search", Input)
        search.display = bool(self.entries or search.value or search.has_focus or self.searches_unlisted)
        if self.entries and self.is_mounted and self.focused is None:
            self.call_after_refresh(self._focus_first)

    def _focus_first(self) -> None:
        if self.focused is None:
            self.query_one(self.AUTO_FOCUS).focus()

    def on_descendant_focus(self) -> None:
        """Show the keys that work in the focused widget.

        On a narrow screen, enlarge the list again if the focus has moved from the details to another widget.
        """
        self.update_key_bar()
        if not self._is_reading():
            self._resize_details()

    def _is_reading(self) -> bool:
        return self.focused is not None and self.query_one("#side") in self.focused.ancestors

    def _resize_details(self) -> None:
        if self.has_class("reading") != self._is_reading():
            self.set_class(self._is_reading(), "reading")
            self._fit_list()

    def focus_next(self, selector: str | type[QueryType] = "*") -> Widget | None:
        """Focus the next widget; on a narrow screen, enlarge the details pane if it contains the focus."""
        widget = super().focus_next(selector)
        self._resize_details()
        return widget

    def focus_previous(self, selector: str | type[QueryType] = "*") -> Widget | None:
        """Focus the previous widget; on a narrow screen, enlarge the details pane if it contains the focus."""
        widget = super().focus_previous(selector)
        self._resize_details()
        return widget

    def on_mount(self) -> None:
        """Load the entries, select the first, and focus the list or the widget that AUTO_FOCUS names."""
        self.reload()
        self.query(self.AUTO_FOCUS).focus()  # which does nothing if the screen is closed while it opens
        for pane in self.query("#facts"):
            # The first refresh after a change of the details may come before their layout.
            self.watch(pane, "virtual_size", self._schedule_facts_focus, init=False)

    def on_resize(self) -> None:
        """Place the details beside the list, or below it on a narrow screen or in screen reader mode."""
        self._set_narrow(self.size.width)
        self.call_after_refresh(self._fit_list)
        self.call_after_refresh(lambda: self.show_about(self._about_content))

    def _set_narrow(self, width: int, *, update: bool = True) -> None:
        self.set_class(width < 100 or is_reader(self), "narrow", update=update)

    def _is_whole(self) -> bool:
        """Return whether the list is mounted; it is not if the screen was closed before it had opened completely."""
        return any(entries.is_whole for entries in self.query(EntryList))

    def _fit_list(self) -> None:
        """Divide a narrow screen between the list and the details, which get more rows while the user reads them."""
        if not self._is_whole():
            return
        rows = self.query_one("#halves").size.height
        share = rows // 3 if self.has_class("reading") else rows * 3 // 5 if self.has_class("bare") else rows // 2
        limit = max(4, share)
        self.query_one(EntryList).fit(limit if self.has_class("narrow") else None)

    def reload(self) -> None:
        """Load the entries again and apply the search; the cursor stays on its entry, wherever it is now listed.

        Do nothing if the screen was closed before it had opened completely.
        """
        if not self._is_whole():
            return
        before = self.current_row()
        self.entries = list(self.load())
        self._group_sizes = Counter(row.group for row in self.entries)
        self.filter(self.query_one("#search", Input).value)
        if self.list_widget.cursor is not None:
            self.list_widget.cursor = self.find_again(before, self.list_widget.cursor)

    def identify(self, row: ListRow) -> object:
        """Return a value that identifies the entry after a reload; by default, this is the entry's title."""
        return row.title

    def find_again(self, before: ListRow | None, default: int) -> int:
        """Return the index of the visible entry that represents the same object as *before*.

        Entries represent the same object if `identify` returns equal values for them. If several entries match, those
        with the same group and detail line are preferred, then the entry closest to *default*. If no entry matches, or
        if *before* is None, return *default*.
        """
        if before is None:
            return default
        known = self.identify(before)
        same = [number for number, row in enumerate(self.visible_rows) if self.identify(row) == known]
        exact = [
            number
            for number, row in ((number, self.visible_rows[number]) for number in same)
            if (row.group, row.detail) == (before.group, before.detail)
        ]
        return min(exact or same, key=lambda number: abs(number - default), default=default)

    def notice_server_change(self) -> None:
        """Call `handle_server_change` now or, if another screen covers this one, once this one is visible again."""
        self._has_missed_change = self.is_covered
        if not self._has_missed_change:
            self.handle_server_change()

    def notice_resource_change(self, server: str, uri: str) -> None:
        """Call `handle_resource_change` now or, if another screen covers this one, once this one is visible again."""
        if self.is_covered:
            self._missed_resources.add((server, uri))
        else:
            self.handle_resource_change(server, uri)

    def on_screen_resume(self) -> None:
        """Handle the changes that were reported while another screen covered this one."""
        missed, self._missed_resources = self._missed_resources, set()
        if self._has_missed_change:
            self.notice_server_change()
        for server, uri in missed:
            self.handle_resource_change(server, uri)

    def handle_server_change(self) -> None:
        """Reload the list after the state, tools, prompts or resources of a server have changed."""
        self.reload()

    def handle_resource_change(self, server: str, uri: str) -> None:
        """Update the screen after a change to the resource *uri* of *server*; by default, do nothing."""

    def filter(self, text: str) -> None:
        """Show the first 500 entries whose title, detail line or group contains every word of *text*, ignoring case."""
        words = [self.fold_text(word) for word in text.split()]
        matches = self._find_matches(words) if words else self.entries
        groups = _limit_groups(matches)
        self.visible_rows = [row for rows, _found in groups for row in rows]
        self._found_count = len(matches)
        self.update_head()
        entries = self.list_widget
        keep = entries.cursor or 0
        self.set_class(not self.entries, "empty")
        self.update_key_bar()
        if not self.visible_rows:
            if self.entries:
                entries.show_message(Content.styled(_(" No matches."), "$muted"))
                self.show_about(Content(""))
            else:
                entries.show_entries(())
                self.show_about(Content.styled(self.empty_text(), "$muted"))
            self.query_one(LongText).show("")
            return
        headings = [EntryGroup(self._render_heading(rows, found), len(rows)) for rows, found in groups]
        entries.show_entries(list(map(self.render_row, self.visible_rows)), headings if self.is_grouped else ())
        entries.cursor = min(keep, len(self.visible_rows) - 1)

    def fold_text(self, text: str) -> str:
        """Normalize *text* for searching; by default, convert it to lowercase.

        Both the texts of the entries and the search text are normalized before they are compared.
        """
        return text.lower()

    def _find_matches(self, words: Sequence[str]) -> list[ListRow]:
        """Return the entries that contain all *words*, which must already be normalized with `fold_text`.

        The entries can contain 16 MB of text. They are therefore normalized only at the first search, and the result is
        cached until the entries are loaded again.
        """
        if self._search_texts[0] is not self.entries:
            texts = [self.fold_text(f"{row.title} {row.detail} {row.group}") for row in self.entries]
            self._search_texts = self.entries, texts
        texts = self._search_texts[1]
        return [row for row, text in zip(self.entries, texts, strict=True) if all(word in text for word in words)]

    @property
    def is_grouped(self) -> bool:
        """Whether the entries belong to several groups, each of which has a heading."""
        return len(self._group_sizes) > 1

    def _render_heading(self, rows: Sequence[ListRow], found_count: int) -> Content:
        """Return the heading of a group: its name, and the number of its entries, such as "12" or "3 of 12".

        *rows* are the listed entries of the group, and *found_count* is the number of its entries that match the
        search. If only the first matches are listed, the heading states this, such as "first 3 of 12". Otherwise, "3 of
        12" means that 3 of the group's 12 entries match.
        """
        group = rows[0].group
        size = self._group_sizes[group]
        if len(rows) < found_count:
            count = _("first {count:,} of {all_count:,}").format(count=len(rows), all_count=found_count)
        elif found_count < size:
            count = _("{count:,} of {all_count:,}").format(count=found_count, all_count=size)
        else:
            count = f"{size:,}"
        return Content.assemble((f" {clean_line(group, 40)}", "bold $accent"), (f"  {count}", "$faint"))

    def update_head(self) -> None:
        """Show the title, how many of the entries match the search, and the warning."""
        count = ""
        if len(self.visible_rows) < self._found_count and not self.is_grouped:
            text = _("  first {count:,} of {all_count:,}: search to find the others")
            count = text.format(count=len(self.visible_rows), all_count=self._found_count)
        elif self.entries:
            count = _("  {found_count} of {entries_count}").format(
                found_count=self._found_count, entries_count=len(self.entries)
            )
        self.query_one("#head", OneLineText).update(
            Content.assemble(
                (_(self.TITLE_TEXT), "bold $accent"),
                (count, "$faint"),
                (f"  {self.warning()}" if self.entries else "", "$warning"),
                self.legend(),
            )
        )

    def render_row(self, row: ListRow) -> Content:
        """Render an entry as one or two lines: its symbol and title, then its detail line if it has one.

        The detail line begins with the group, unless the group has a heading. In screen reader mode, it always begins
        with the group, because a screen reader announces only the entry.
        """
        first = Content.assemble((f" {row.mark or ' '} ", row.mark_style), clean_line(row.title, 120))
        group = "" if self.is_grouped and not is_reader(self) else row.group
        detail = " · ".join(filter(None, (group, row.detail)))
        return Content.assemble(first, ("\n   " + clean_line(detail, 160), "$muted")) if detail else first

    def show_icon(self, icons: tuple[Icon, ...]) -> None:
        """Show the embedded icon that best suits the theme; show no icon if none can be displayed."""
        theme = self.app.current_theme  # pyright: ignore[reportUnknownMemberType]
        self.query_one("#icon", ImageView).show_image(find_drawable(icons, dark=theme.dark))

    def show_about(self, content: Content | Sequence[tuple[str, str | Content]]) -> None:
        """Show details of the selected entry, either as styled text or as name-value pairs in two columns.

        Do nothing if the screen was closed before it had opened completely.
        """
        self._about_content = content
        if not self.query("#about"):
            return
        pane = self.query_one("#about", Static)
        wide = pane.content_size.width or self.size.width
        pane.update(content if isinstance(content, Content) else layout_pairs(content, wide))
        self.query_one("#facts").scroll_home(animate=False)
        self._schedule_facts_focus()

    def _schedule_facts_focus(self) -> None:
        self.call_after_refresh(self._update_facts_focus)

    def _update_facts_focus(self) -> None:
        """Make the name-value pairs in the details pane focusable only while they are long enough to scroll."""
        for pane in self.query("#facts"):
            pane.can_focus = pane.max_scroll_y > 0

    def current_row(self) -> ListRow | None:
        """Return the entry under the cursor, or None if no entry is shown."""
        index = self.list_widget.cursor
        return self.visible_rows[index] if index is not None and index < len(self.visible_rows) else None

    @property
    def list_widget(self) -> Entries:
        """The widget that contains the entries and the headings."""
        return self.query_one("#entries", Entries)

    def _row_of(self, event: OptionList.OptionMessage) -> ListRow | None:
        """Return the entry that an event is about, or None if it is no longer listed."""
        option = event.option
        if isinstance(option, EntryOption) and option.index < len(self.visible_rows):
            return self.visible_rows[option.index]
        return None

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the list while the user types in the search line."""
        if event.input.id == "search":
            self.filter(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Move the focus to the list when Enter is pressed in the search line."""
        if event.input.id == "search":
            self.query_one("#entries").focus()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the details of the highlighted entry; the app also handles the event, for screen readers."""
        if row := self._row_of(event):
            self.show_details(row)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the selected entry."""
        event.stop()
        if row := self._row_of(event):
            self.open_row(row)

    def select_last(self) -> None:
        """Move the cursor to the last entry."""
        entries = self.list_widget
        if entries.entry_count:
            entries.cursor = entries.entry_count - 1
            # Until the next layout, the list can scroll only as far as its previous height allows.
            entries.call_after_refresh(entries.scroll_to_highlight)

    def action_choose(self) -> None:
        """Open the selected entry."""
        if row := self.current_row():
            self.open_row(row)

    def action_search(self) -> None:
        """Focus the search line."""
        search = self.query_one("#search")
        search.display = True
        self.set_focus(search)

    def action_move_cursor(self, direction: str) -> None:
        """Move the list's cursor "up" or "down" while the search line has the focus."""
        entries = self.list_widget
        (entries.action_cursor_down if direction == "down" else entries.action_cursor_up)()

    def action_leave(self) -> None:
        """Show all entries again if a search narrows the list; otherwise, close the screen without a result."""
        if not self._clears_search():
            self.dismiss(None)
            return
        before = self.current_row()
        self.query_one("#search", Input).value = ""
        self.filter("")
        if self.list_widget.cursor is not None:
            self.list_widget.cursor = self.find_again(before, self.list_widget.cursor)
        self.list_widget.focus()

    def _clears_search(self) -> bool:
        """Return whether Esc clears the search line instead of closing the screen.

        On a screen that opens with the focus on the search line, Esc always closes the screen.
        """
        return self.AUTO_FOCUS != "#search" and any(line.value for line in self.query("#search").results(Input))


def _limit_groups(rows: Sequence[ListRow]) -> list[tuple[list[ListRow], int]]:
    """Divide *rows* into groups; return, for each group, the entries to show and the number of its entries in *rows*.

    At most 500 entries are shown. They are divided equally between the groups; if a group has fewer entries than its
    share, the other groups show more.
    """
    groups: dict[str, list[ListRow]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    left, shares = _MAX_SHOWN, dict[str, int]()
    for number, (group, members) in enumerate(sorted(groups.items(), key=lambda item: len(item[1]))):
        shares[group] = min(len(members), left // (len(groups) - number))
        left -= shares[group]
    return [(members[: shares[group]], len(members)) for group, members in groups.items() if shares[group]]


def describe_error(error: McpHostError, screen: Screen[Any], action: str = "servers-sign-in") -> str:
    """Return the error's message and hint.

    If a sign-in is required, also name the key that starts it. *action* is the id of this key's binding on *screen*.
    """
    is_required = isinstance(error, SignInRequired) and not isinstance(error, SignInUnchanged)
    key = _("Press {key} to sign in.").format(key=keys_in_use(screen).long(action)) if is_required else ""
    return join_sentences(translate_sentence(error.message), key, translate_sentence(error.hint))


def clean_pairs(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sanitize and truncate name-value pairs for the details pane, and drop pairs whose value is empty.

    Names and values may come from a server.
    """
    return [(clean_line(name, 40), clean_line(value, 600)) for name, value in pairs if value]
