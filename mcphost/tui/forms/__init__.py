"""Forms: fields one below the other, the widgets of one field, an input with suggestions."""
