"""Forms: a column of fields, the input widgets for each kind of field, and an input with suggestions."""
