"""The catalog of translations: it is extracted from the code, merged and compiled here."""
