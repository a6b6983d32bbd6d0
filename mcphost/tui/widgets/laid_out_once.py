"""Widgets and a mixin that avoid a second layout of the screen after each change."""

from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.reactive import var
from textual.visual import VisualType
from textual.widgets import Static


class LaidOutOnce:
    """Mixin for a widget that does not set its own virtual size, to avoid a second layout.

    Textual 8.2.8 lays out the whole screen again if a layout has changed the virtual size of a widget. This is needed
    only for widgets such as TextArea, which set their virtual size themselves; for all other widgets, the second layout
    equals the first. The mixin is deliberately not a DOMNode, for the reason given at StyledOnMount.
    """

    virtual_size = var(Size(0, 0))


class Column(LaidOutOnce, Vertical):
    """Container that stacks its children vertically and is as high as all of them together.

    The height must not depend on that of the surrounding container, so no child may have a height in percent or `fr`.
    """

    DEFAULT_CSS = "Column { height: auto; }"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the children, which is computed again only if they or *width* have changed.

        Textual would compute it again whenever the size of *container* changes, which happens when a sibling grows.
        """
        return super().get_content_height(Size(container.width, 0), viewport, width)


class Row(LaidOutOnce, Horizontal):
    """Container that places its children side by side and is as high as the tallest child."""

    DEFAULT_CSS = "Row { height: auto; }"

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the tallest child; see `Column.get_content_height`."""
        return super().get_content_height(Size(container.width, 0), viewport, width)


class FlexColumn(LaidOutOnce, Vertical):
    """Container that stacks its children vertically; they may have heights in percent or `fr`."""


class FlexRow(LaidOutOnce, Horizontal):
    """Container that places its children side by side; they may have heights in percent or `fr`."""


class StaticText(LaidOutOnce, Static):
    """Static that does nothing if its text is replaced with the same text."""

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Show *content*, and lay out the screen if *layout* is true; do nothing if nothing changes."""
        shown = self.content
        if isinstance(content, Content) and isinstance(shown, Content):
            is_equal = content.is_same(shown)
        else:
            is_equal = isinstance(content, str) and content == shown
        if not is_equal:
            super().update(content, layout=layout)
