"""Form widgets: an input for each kind of field, the form that combines them, and an input with suggestions."""
