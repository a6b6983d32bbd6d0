"""Translation of the user interface with gettext; the English strings in the code are the keys.

A text that is shown at once is written `_("…")`; a text in a table is marked `N_("…")`, and `_` translates it when it
is shown. Named fields are filled in afterwards: `_("{calls} calls of {server}").format(calls=2, server="files")`.
Output for programs, texts for models, the audit log and exports are never translated.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gettext import GNUTranslations

ENGLISH, CHINESE, AUTO = "en", "zh-CN", "auto"
LANGUAGES = (ENGLISH, CHINESE)
_FOLDERS = {CHINESE: "zh_CN"}
_SIMPLIFIED = {"cn", "sg", "my", "hans"}

_language = ENGLISH
_catalog: "GNUTranslations | None" = None


def set_language(language: str) -> None:
    """Translate to one of `LANGUAGES` from now on; its catalog is loaded if it is not English.

    Texts that are already on the screen do not change. A language without a catalog means English.
    """
    global _language, _catalog  # noqa: PLW0603 - a process has one language, and `_` must stay a cheap call
    if language == _language:
        return
    _language, _catalog = ENGLISH, None
    if folder := _FOLDERS.get(language, ""):
        import gettext
        from pathlib import Path

        file = Path(__file__).parent / "locale" / folder / "LC_MESSAGES" / "mcphost.mo"
        with file.open("rb") as catalog:
            _catalog = gettext.GNUTranslations(catalog)
        _language = language


def current_language() -> str:
    """Return the language that texts are translated to."""
    return _language


def choose_language(configured: object, environ: Mapping[str, str]) -> str:
    """Return the configured language; for "auto", that of the locale in *environ*, or else English."""
    if configured in LANGUAGES:
        return str(configured)
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    first, *rest = locale.partition(".")[0].partition("@")[0].replace("-", "_").lower().split("_")
    return CHINESE if first == "zh" and (not rest or _SIMPLIFIED & set(rest)) else ENGLISH


def _(message: str) -> str:
    """Return the translation of a text."""
    return _catalog.gettext(message) if _catalog is not None and message else message


def N_(message: str) -> str:  # noqa: N802 - gettext's name
    """Return the text as it is, and mark it for translation where it is shown."""
    return message


def ngettext(singular: str, plural: str, number: int) -> str:
    """Return the translation of one of two texts, depending on a number."""
    if _catalog is not None:
        return _catalog.ngettext(singular, plural, number)
    return singular if number == 1 else plural


def pgettext(context: str, message: str) -> str:
    """Return the translation of a text that has another meaning in another context."""
    return _catalog.pgettext(context, message) if _catalog is not None else message
