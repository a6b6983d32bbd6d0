"""Forms for the terminal, with an input widget for each kind of field and an input that suggests values."""
