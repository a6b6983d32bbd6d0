"""Mixins that keep Textual from applying the style sheet to the same widget several times."""

from typing import Any, cast

from textual.events import ScreenResume


class StyledOnMount:
    """Mixin that applies the style sheet only once a widget is mounted.

    Textual also applies the style sheet whenever a constructor sets a CSS class, for example for `compact=True`. This
    is wasted time, because the style sheet is applied again when the widget is mounted. Put the mixin before the widget
    in the list of base classes. The mixin is deliberately not a DOMNode, because Textual takes the default CSS from the
    first base class that is a DOMNode.

    To save more time, a subclass can pass `inherit_component_classes=False` and omit component classes that it does not
    need: Textual matches each of them against all style rules whenever the widget is styled.
    """

    def __init_subclass__(cls, *, inherit_component_classes: bool = True, **options: Any) -> None:
        """Accept DOMNode's option `inherit_component_classes`, which Textual 8.2.8's Widget does not pass on."""
        super().__init_subclass__(**options)
        cast("Any", cls)._inherit_component_classes = inherit_component_classes

    def update_node_styles(self, animate: bool = True) -> None:
        """Apply the style sheet, unless the widget is not mounted yet."""
        if cast("Any", self).is_attached:
            cast("Any", super()).update_node_styles(animate)


class StyledOnce:
    """Mixin for a screen whose widgets are not styled again when the screen is first shown.

    The widgets were already styled when they were mounted. The mixin is deliberately not a DOMNode, for the reason
    given at StyledOnMount.
    """

    def _on_screen_resume(self, event: ScreenResume) -> None:
        if cast("Any", self).stack_updates == 0:
            event.refresh_styles = False
