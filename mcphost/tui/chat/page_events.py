"""Handlers of the chat for events about a tool's interactive page (MCP Apps)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcphost.host import events
from mcphost.translation import _, translate_sentence
from mcphost.tui.transcript.tool_card import ToolCard
from mcphost.tui.widgets.composer import Composer

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.theme import Theme

    from mcphost.host.host import Host
    from mcphost.tui.transcript.presenter import TranscriptPresenter


class PageEvents:
    """Handler of events about interactive pages.

    It marks the cards of tool calls that have a page, and inserts text that a page proposes into the composer.
    """

    def __init__(self, screen: "Screen[None]", host: "Host", presenter: "TranscriptPresenter") -> None:
        self._screen, self._host, self._presenter = screen, host, presenter
        self.event_handlers: dict[type[events.AnyEvent], Callable[[Any], None]] = {
            events.PageOffered: self._mark_card,
            events.PagesChanged: self._report_closed,
            events.PageDrafted: self._add_draft,
            events.ConversationOpened: self._mark_earlier,
        }
        self._mark_earlier(None)
        screen.app.theme_changed_signal.subscribe(screen, self._use_theme)  # pyright: ignore[reportUnknownMemberType]

    def _use_theme(self, theme: "Theme") -> None:
        if self._host.open_pages:
            self._host.pages.use_theme("dark" if theme.dark else "light")

    def _mark_card(self, event: events.PageOffered) -> None:
        presenter = self._presenter
        cards = (presenter.cards, presenter.manual_cards, presenter.unsent_manual_cards)
        for card in (known.get(event.call) for known in cards):
            if card is not None:
                card.has_page = True
                presenter.transcript.update_block(card)

    def _mark_earlier(self, _event: object) -> None:
        if self._host.conversation.messages or self._host.conversation.manual_calls:
            self._screen.run_worker(self._mark_stored_cards, group="pages", exclusive=True)

    async def _mark_stored_cards(self) -> None:
        """Mark the cards of the conversation's earlier calls whose pages can be opened."""
        transcript = self._presenter.transcript
        if calls := await self._host.list_page_calls():
            await transcript.wait_loaded()
            for card in transcript.blocks:
                if isinstance(card, ToolCard) and card.call in calls:
                    card.has_page = True
                    transcript.update_block(card)

    def _report_closed(self, event: events.PagesChanged) -> None:
        if event.closed_server:
            text = _("The page of {server} was closed: {reason}.")
            reason = translate_sentence(event.reason)
            self._screen.notify(text.format(server=event.closed_server, reason=reason), markup=False, timeout=8)

    def _add_draft(self, event: events.PageDrafted) -> None:
        composer = self._screen.query_one(Composer)
        separator = "\n" if composer.draft.text.strip() else ""
        composer.insert_prompt_text(event.server, separator + event.text)
        said = _("The text of the page of {server} is in your message; it was not sent.")
        self._screen.notify(said.format(server=event.server), markup=False, timeout=6)
