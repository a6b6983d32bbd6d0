"""Notices in the transcript about changes to subscribed resources, or to resources below them."""

from mcphost.host.events import ResourceChanged
from mcphost.protocol.resources import UriIndex
from mcphost.translation import N_, _
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import clean_line
from mcphost.tui.transcript.blocks import NoticeBlock
from mcphost.tui.transcript.transcript import Transcript

OUTDATED_HINT = N_(
    "The model has an older version. To attach what changed, press Shift+Tab, then {attachments-refresh} on its row."
)
_MAX_NOTICES = 20


class ResourceChangeNotices:
    """Notices about changed resources.

    For each resource, there is one notice in each turn, which counts the changes.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._shown: dict[ResourceChanged, tuple[NoticeBlock, int]] = {}

    def start_turn(self) -> None:
        """Begin a new turn; later changes are reported in new notices."""
        self._shown.clear()

    def show(self, event: ResourceChanged, attached: UriIndex) -> None:
        """Add a notice about the change, or update the notice about the same resource in this turn.

        An updated notice shows the number of changes. *attached* contains the URIs of the server's resources that the
        user has attached; if the changed resource is one of them, a new notice has a hint that the attachment is
        outdated.
        """
        name = f"{clean_line(event.server, 60)} · {clean_line(event.uri, 300)}"
        if event in self._shown:
            block, times = self._shown[event]
            self._shown[event] = (block, times + 1)
            block.text = _("{name} has changed {times} times.").format(name=name, times=times + 1)
            self._transcript.update_block(block)
        elif len(self._shown) < _MAX_NOTICES:
            hint = fill_keys(self._transcript, _(OUTDATED_HINT)) if attached.find(event.uri) else ""
            block = NoticeBlock("info", _("{name} has changed.").format(name=name), hint)
            self._shown[event] = (block, 1)
            self._transcript.add(block)
