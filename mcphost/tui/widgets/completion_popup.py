"""Popup with completions for the word at the cursor.

It completes commands, prompts, tools, resources, resource templates and files.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from textual.content import Content

from mcphost.translation import N_, _
from mcphost.tui.command_names import parse_slash_command
from mcphost.tui.screen_text import clean_line, fold_separators, pad_cells
from mcphost.tui.widget_messages import (
    ActionRequested,
    AttachRequested,
    FileAttachRequested,
    PromptRequested,
    TemplateRequested,
)
from mcphost.tui.widgets.unmatched_mentions import Mentions

if TYPE_CHECKING:
    from textual.widget import Widget
    from textual.widgets import OptionList
    from textual.widgets.option_list import Option

    from mcphost.tui.widgets.text_inputs import OrderedTextArea

_MAX_SHOWN = 50
_MAX_BESIDE_FILES = 5
_MAX_COMPARED = 200
"""Maximum characters of a title or value that are compared with the typed text, at each key press."""
_TEMPLATES_BESIDE_FILES = 2
"""How many of the items above files are resource templates if there are many resources."""
_TITLE_WIDTH = 24
SEARCHING = N_("Looking for files…")


class CompletionItem(NamedTuple):
    """An item of the completion popup, which shows `title` and `detail`.

    - `kind`: what happens when the user chooses the item. "action" runs an action, "prompt" opens a prompt, "resource"
      and "file" attach one, and "template" asks for a resource template's variables and attaches the result. "text"
      inserts text, and "value" inserts the value of a command. An "alias" runs an action as well, but is offered only
      if its title begins with the typed text.
    - `value`: depending on `kind`, the name of an action or prompt, a URI, a URI template, a path, or the text to
      insert.
    - `server`: the server that provides the prompt, resource or template, or "" for other kinds.
    """

    kind: Literal["action", "alias", "prompt", "resource", "template", "file", "text", "value"]
    value: str
    server: str
    title: str
    detail: str


CompletionSource = Callable[[str], list[CompletionItem]]
"""Returns all completions for "/", "@", "!", or the values of a command such as "/theme"."""

FileSearch = Callable[[str], None]
"""Starts a search for files that match the text after "@"; `CompletionPopup.show_files` receives the result."""


def _takes_value(line: str) -> bool:
    """Return whether *line* begins with a slash command whose value can be completed.

    The line may also contain the beginning of the value, as in `/theme fj`.
    """
    parsed = parse_slash_command(line)
    return parsed is not None and parsed.takes_value


def _split_word(word: str) -> tuple[str, str]:
    """Split *word*, the text to complete, into the kind of completions and the lowercase text to search for.

    The kind is the first character, such as "@", or a slash command, such as "/theme", if a value follows it.
    """
    command, blank, value = word.partition(" ")
    return (command, value.strip().lower()) if blank and word[0] == "/" else (word[0], word[1:].lower())


def _is_match(offer: CompletionItem, needle: str) -> bool:
    title = offer.title[:_MAX_COMPARED].lower()
    if offer.kind == "alias":
        return bool(needle) and title.startswith(f"/{needle}")
    if offer.kind == "value":
        return fold_separators(needle) in fold_separators(offer.value)
    if needle in title or needle in offer.value[:_MAX_COMPARED].lower():
        return True
    return offer.kind in {"resource", "template"} and _abbreviates(needle, title)


def _abbreviates(needle: str, title: str) -> bool:
    """Return whether *needle* is an abbreviation of *title*.

    This is the case if *title* contains the letters of *needle* in the same order, with the first letter at the
    start of a word.
    """
    at = title.find(needle[0])
    while at >= 0 and title[at - 1 : at].isalnum():
        at = title.find(needle[0], at + 1)
    for letter in needle:
        if at < 0 or (at := title.find(letter, at)) < 0:
            return False
        at += 1
    return True


def _rank(offer: CompletionItem, needle: str) -> tuple[bool, bool, bool]:
    """Return a sort key for an item, so that items which match the typed text *needle* better come first.

    The order is: a command's value that equals the typed text, items whose titles begin with the text, items that
    contain the text, and items whose titles it abbreviates.
    """
    title = offer.title[:_MAX_COMPARED].lower().lstrip("/")
    is_contained = needle in title or needle in offer.value[:_MAX_COMPARED].lower()
    return not (offer.kind == "value" and title == needle), not title.startswith(needle), not is_contained


def find_matches(offers: Iterable[CompletionItem], needle: str) -> list[CompletionItem]:
    """Return the items that match the typed text *needle*, which is in lower case, the best ones first.

    Only the first 200 characters of a title or value are compared, because a server may offer very many long ones.
    """
    found = [offer for offer in offers if _is_match(offer, needle)]
    found.sort(key=lambda offer: _rank(offer, needle))
    return found


def _limit_beside_files(found: list[CompletionItem]) -> list[CompletionItem]:
    """Return at most five resources and resource templates, in the order of *found*, to list above files.

    If there are many resources, at most two of the five items are templates.
    """
    templates = [offer for offer in found if offer.kind == "template"]
    resource_count = len(found) - len(templates)
    kept = set(templates[: max(_TEMPLATES_BESIDE_FILES, _MAX_BESIDE_FILES - resource_count)])
    kept.update([offer for offer in found if offer.kind == "resource"][: _MAX_BESIDE_FILES - len(kept)])
    return [offer for offer in found if offer in kept]


def no_completions(kind: str) -> list[CompletionItem]:
    """Return an empty list; used until the composer is connected to a chat."""
    del kind
    return []


class CompletionPopup:
    """List of completions that a composer shows above its text area.

    The list's widget exists only while the popup is open. Resources and resource templates are listed immediately.
    Files are added below them once a thread has found them, so that the item that the user is about to choose does
    not move to another row.
    """

    def __init__(
        self,
        composer: "Widget",
        text_area: "Callable[[], OrderedTextArea]",
        is_typed: Callable[[], bool],
        mentions: Mentions,
    ) -> None:
        """Create a popup for the *text_area* of *composer*.

        *is_typed* returns whether the user typed all of the text; only then are commands and tools completed.
        *mentions* records what was found for each word that begins with "@".
        """
        self._composer, self._text_area, self._is_typed = composer, text_area, is_typed
        self._mentions = mentions
        self.source: CompletionSource = no_completions
        self.file_search: FileSearch | None = None
        self.is_suppressed = False
        """Whether the program is about to change the text, which must not open the popup."""

        self.is_change_pending = False
        """Whether the text has changed, but the message that updates the popup has not been handled yet."""

        self._items: list[CompletionItem] = []
        self._word: str | None = None
        self._files: tuple[str, list[CompletionItem], str] = ("", [], "")
        """The word that was searched for, the files found, and the limit that was reached, if any."""

        self._applies_next = False

    @property
    def _is_searching(self) -> bool:
        return self.file_search is not None and (self._word or "")[:1] == "@" and self._files[0] != self._word

    def update(self) -> None:
        """Show completions for the word before the cursor; close the popup if the word cannot be completed."""
        word = self._completion_word()
        if word is None:
            self.close()
            return
        is_new, self._word = word != self._word, word
        self._applies_next &= not is_new
        self._items = self._find(word)
        if is_new and word[0] == "@" and self.file_search is not None:
            self.file_search(word[1:])
        self._show()

    def show_files(self, query: str, files: list[CompletionItem], note: str = "") -> None:
        """Add the files found for *query*, unless the word at the cursor has changed since the search began.

        *note* describes the limit that was reached when the files were indexed, or is "" if none was reached.
        """
        word = f"@{query}"
        self._mentions.record(
            word, [item.value for item in files], is_unknown=not files and not self._find_offered(word)
        )
        if word != self._word or self._completion_word() != word:
            return
        self._files = (word, files, note)
        highlighted = self._highlighted()
        self._items = self._find(word)
        self._show(highlighted)
        if self._applies_next and self._items:
            self._apply(0)
        self._applies_next = False

    def search_again(self, _event: object) -> None:
        """Search again if nothing has matched the word at the cursor so far, because a server now offers more.

        If items are already shown, do nothing, so that none of them moves to another row.
        """
        word = self._word
        if word is None or self._items or self._completion_word() != word:
            return
        self._items = self._find(word)
        if self._items:
            self._show()

    def _find_offered(self, word: str) -> list[CompletionItem]:
        kind, needle = _split_word(word)
        return find_matches(self.source(kind), needle)

    def _find(self, word: str) -> list[CompletionItem]:
        found = self._find_offered(word)
        files = self._files[1] if self._files[0] == word else []
        return [*(_limit_beside_files(found) if files else found), *files][:_MAX_SHOWN]

    @property
    def word_at_cursor(self) -> str | None:
        """The word at the cursor that can be completed, or None if there is none."""
        return self._completion_word()

    def _completion_word(self) -> str | None:
        text_area = self._text_area()
        row, column = text_area.cursor_location
        line = text_area.document.get_line(row)[:column]
        if row == 0 and line[:1] in {"/", "!"} and self._is_typed() and (" " not in line or _takes_value(line)):
            return line
        start = max(line.rfind(" "), line.rfind("\t")) + 1
        return line[start:] if line[start : start + 1] == "@" else None

    def _show(self, highlighted: int = 0) -> None:
        from textual.widgets import OptionList

        lists = self._composer.query(OptionList)
        if lists:
            popup = lists.first()
            popup.clear_options()
        else:
            popup = OptionList(markup=False, compact=True)
            popup.can_focus = False
            self._composer.mount(popup, before=0)
        popup.add_options(self._rows())
        popup.highlighted = self._index_of(min(highlighted, len(self._items) - 1)) if self._items else None

    def _rows(self) -> "list[Option]":
        from textual.widgets.option_list import Option

        def remark(text: str) -> Option:
            return Option(Content.styled(f" {text}", "$muted"), disabled=True)

        word = self._word or ""
        if not self._items:
            empty = {"@": _("No matching resource or file: it is sent as text."), "!": _("No matching tool.")}
            if " " in word:
                return []  # such as a file name, or models that are still searched for
            return [remark(_(SEARCHING) if self._is_searching else empty.get(word[:1], _("No matching command.")))]
        titles = [clean_line(offer.title, 60 if offer.kind == "file" else 40) for offer in self._items]
        width = min(_TITLE_WIDTH, max(map(len, titles)))
        rows = [
            Option(
                Content.assemble((f" {pad_cells(title, width)}  ", "bold"), (clean_line(offer.detail, 120), "$muted"))
            )
            for title, offer in zip(titles, self._items, strict=True)
        ]
        if (first := self._first_file) is not None:
            limit = _(" (of {files})").format(files=self._files[2]) if self._files[2] else ""
            rows.insert(first, remark(_("Files{limit}").format(limit=limit)))
            if first:
                rows.insert(0, remark(_("Resources")))
        return rows

    @property
    def _first_file(self) -> int | None:
        return next((at for at, item in enumerate(self._items) if item.kind == "file"), None)

    def _index_of(self, item: int) -> int:
        """Return the row of the item at index *item*; the rows of headings are counted as well."""
        first = self._first_file
        if first is None:
            return item
        return item + (1 if first else 0) + (1 if item >= first else 0)

    def _highlighted(self) -> int:
        popup = self._list()
        return 0 if popup is None else self._item_at(popup.highlighted or 0)

    def _item_at(self, row: int) -> int:
        return next((item for item in range(len(self._items)) if self._index_of(item) >= row), 0)

    def _list(self) -> "OptionList | None":
        from textual.widgets import OptionList

        return next(iter(self._composer.query(OptionList)), None)

    def close(self) -> None:
        """Close the popup, and leave the text unchanged."""
        self._items, self._word, self._applies_next = [], None, False
        from textual.widgets import OptionList

        for popup in self._composer.query(OptionList):
            popup.remove()

    def process_key(self, key: str) -> bool:
        """Handle a key press for the popup; return False if the popup is closed or does not use the key."""
        may_open = self._word is not None or (self.is_change_pending and not self.is_suppressed)
        if may_open and key in {"tab", "enter"} and self._completion_word() != self._word:
            # A change notification is still pending: update the popup before choosing from it.
            self.update()
        popup = self._list()
        if popup is not None and not self._items and self._is_searching and key in {"tab", "enter"}:
            self._applies_next = True
            return True
        if popup is not None and key == "escape" and popup.option_count:
            self.close()
            return True
        if popup is None or not self._items:
            return False
        if key == "down":
            popup.action_cursor_down()
        elif key == "up":
            popup.action_cursor_up()
        elif key == "enter" and self._is_completed(self._items[self._highlighted()]):
            self.close()
            return False  # nothing is left to complete, so Enter submits the draft
        elif key in {"tab", "enter"}:
            self._apply(self._highlighted(), descends=key == "tab")
        else:
            return False
        return True

    def _is_completed(self, offer: CompletionItem) -> bool:
        """Return whether the word at the cursor already contains all the text that *offer* would insert.

        Only items of the kinds "text" and "value" can be complete. For a value such as a model name, the part after its
        last "/" is enough, unless another value ends with the same part.
        """
        word = self._completion_word() or ""
        typed = word.partition(" ")[2].strip()
        if offer.kind != "value":
            return offer.kind == "text" and word == offer.value
        short = [one.value for one in self._items if one.value.rpartition("/")[2] == typed]
        return typed == offer.value or (bool(typed) and short == [offer.value])

    def apply_row(self, row: int) -> None:
        """Apply the completion in the clicked row; *row* is its position in the list, including headings."""
        if self._items:
            self._apply(self._item_at(row))

    def _apply(self, index: int, *, descends: bool = False) -> None:
        """Replace the word at the cursor with the item at *index*, and run the item's action.

        If *descends* is true and the item is a folder, only insert its path. The user can then complete the name of a
        file in the folder.
        """
        offer = self._items[index]
        word = self._completion_word() or ""
        text_area = self._text_area()
        row, column = text_area.cursor_location
        enters_folder = descends and offer.kind == "file" and offer.value.endswith("/")
        self.is_suppressed = not enters_folder
        start = (row, column - len(word))
        texts = {"text": f"{offer.value} ", "value": f"{word.partition(' ')[0]} {offer.value}"}
        inserted = f"@{offer.value}" if enters_folder else texts.get(offer.kind, "")
        text_area.replace(inserted, start, (row, column))
        if enters_folder:
            return
        self.close()
        if offer.kind in {"action", "alias"}:
            self._composer.post_message(ActionRequested(offer.value))
        elif offer.kind == "prompt":
            self._composer.post_message(PromptRequested(offer.server, offer.value))
        elif offer.kind == "resource":
            self._composer.post_message(AttachRequested(offer.server, offer.value))
        elif offer.kind == "template":
            self._composer.post_message(TemplateRequested(offer.server, offer.value))
        elif offer.kind == "file":
            before = text_area.document.get_line(row)[: start[1]]
            restore = partial(self.restore, f"@{offer.value}", start, before)
            self._composer.post_message(FileAttachRequested(offer.value, restore))

    def restore(self, mention: str, start: tuple[int, int], before: str) -> None:
        """Insert *mention*, a word that begins with "@", at *start* again, because its file could not be attached.

        *before* is the text that preceded the mention in its line. If the line no longer begins with this text, do
        nothing.
        """
        text_area = self._text_area()
        line = text_area.document.get_line(start[0]) if start[0] < text_area.document.line_count else None
        if line is not None and line.startswith(before):
            self.is_suppressed = True
            is_apart = not line[start[1] :][:1].strip()
            text_area.insert(mention if is_apart else f"{mention} ", start)
