"""Translation of the user interface with gettext; the English strings in the code are the keys.

Code that displays a string writes `_("…")`; a string in a table is marked with `N_("…")`, and translated with `_` when
displayed. Named fields are filled in afterwards: `_("{calls} calls of {server}").format(calls=2, server="files")`.
Output for programs, text for models, the audit log and exports are never translated.

Sentences from the layers below the user interface, such as error messages, are also read by programs and models, so
these layers produce them in English. The screen and the commands translate each whole sentence with
`translate_sentence`. The commands' own errors are translated in the same way, because `--json` reports them in English.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from gettext import GNUTranslations

ENGLISH, CHINESE, AUTO = "en", "zh-CN", "auto"
LANGUAGES = (ENGLISH, CHINESE)
FOLDERS = {CHINESE: "zh_CN"}
"""The folder of each language's catalog, below `locale`."""

_SIMPLIFIED = {"cn", "sg", "my", "hans"}

SENTENCE = "sentence"
"""The gettext context of sentences from the layers below the user interface, in which values are already filled in."""

_SEPARATOR = "\x04"  # between context and text, as in compiled catalogs
_MAX_SENTENCE, _MAX_DEPTH = 1_000, 3
_MAX_SENTENCES = 8
"""Maximum number of sentences in one text that are translated one by one."""
_COUNT = re.compile(r"([\d.,]+) ([a-z][a-z ]*)")
_NUMBER = "{number:,} "

_language = ENGLISH
_catalog: "GNUTranslations | None" = None
_sentences: "SentencePatterns | None" = None
_hints: Mapping[str, str] = {}


def set_language(language: str) -> None:
    """Set the language of the user interface, one of LANGUAGES; load its catalog unless it is English.

    Text that is already displayed does not change. If a language has no catalog, English is used.
    """
    global _language  # noqa: PLW0603 - a process has one language, and `_` must stay a cheap call
    if language == _language and not isinstance(_catalog, _UndecidedCatalog):
        return
    _language = ENGLISH
    use_catalog(None)
    if folder := FOLDERS.get(language, ""):
        import gettext
        from pathlib import Path

        file = Path(__file__).parent / "locale" / folder / "LC_MESSAGES" / "mcphost.mo"
        with suppress(FileNotFoundError), file.open("rb") as catalog:
            use_catalog(gettext.GNUTranslations(catalog))
            _language = language


def set_language_later(choose: "Callable[[], str]") -> None:
    """Choose the language just before the first translation, by calling *choose*.

    A command that displays no translatable text therefore reads neither the configuration nor a catalog.
    """
    use_catalog(cast("GNUTranslations", _UndecidedCatalog(choose)))


class _UndecidedCatalog:
    """Placeholder for the catalog until the first translation, when the language is chosen."""

    def __init__(self, choose: "Callable[[], str]") -> None:
        self._choose = choose

    def decide(self) -> None:
        set_language(self._choose())

    def gettext(self, message: str) -> str:
        self.decide()
        return _(message)

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        self.decide()
        return ngettext(singular, plural, number)

    def pgettext(self, context: str, message: str) -> str:
        self.decide()
        return pgettext(context, message)


def use_catalog(catalog: "GNUTranslations | None") -> None:
    """Use this catalog for all further translations; None leaves the user interface in English."""
    global _catalog, _sentences
    _catalog, _sentences = catalog, None


def _fill_nothing(template: str) -> str:
    return template


_fill_hint: Callable[[str], str] = _fill_nothing


def use_hints(hints: Mapping[str, str], fill: Callable[[str], str]) -> None:
    """Set other wordings for hints, which `translate_sentence` uses instead of the English sentences.

    *hints* maps an English sentence to a template with the same meaning. The template is translated first; then *fill*
    replaces its placeholders.
    """
    global _hints, _fill_hint
    _hints, _fill_hint = hints, fill


def current_language() -> str:
    """Return the language of the user interface, choosing it first if necessary."""
    if isinstance(_catalog, _UndecidedCatalog):
        _catalog.decide()
    return _language


def choose_language(configured: object, environ: Mapping[str, str]) -> str:
    """Return *configured* if it is a supported language, otherwise the language of the locale in *environ*.

    The result is English if the locale's language is not supported.
    """
    if configured in LANGUAGES:
        return str(configured)
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := environ.get(name))), "")
    first, *rest = locale.partition(".")[0].partition("@")[0].replace("-", "_").lower().split("_")
    return CHINESE if first == "zh" and (not rest or _SIMPLIFIED & set(rest)) else ENGLISH


def _(message: str) -> str:
    """Return the translation of *message*, or *message* itself if there is none."""
    return _catalog.gettext(message) if _catalog is not None and message else message


def N_(message: str) -> str:  # noqa: N802 - gettext's name
    """Return *message* unchanged, but mark it as translatable; the code that displays it calls `_`."""
    return message


def ngettext(singular: str, plural: str, number: int) -> str:
    """Return the translation of *singular* or *plural*, depending on which form *number* requires."""
    if _catalog is not None:
        return _catalog.ngettext(singular, plural, number)
    return singular if number == 1 else plural


def pgettext(context: str, message: str) -> str:
    """Return the translation of a message whose meaning depends on *context*."""
    return _catalog.pgettext(context, message) if _catalog is not None else message


class SentencePatterns:
    """Translator for sentences whose values are already filled in; it finds the template of each sentence.

    *translations* maps templates, such as "{server} did not answer in {seconds} s.", to their translations. *counts* is
    for values such as "2 tools": it maps a noun, such as "tool", to a template, such as "{number:,} 个工具".
    """

    def __init__(self, translations: Mapping[str, str], counts: Mapping[str, str] | None = None) -> None:
        self._counts = counts or {}
        self._exact: dict[str, str] = {}
        self._templates: dict[str, list[tuple[list[str], list[str], str]]] = {}
        for english, translation in translations.items():
            literals, fields = _split_template(english)
            if fields:
                self._templates.setdefault(literals[0][:1], []).append((literals, fields, translation))
            else:
                self._exact[literals[0]] = translation.replace("{{", "{").replace("}}", "}")
        for listed in self._templates.values():
            listed.sort(key=lambda one: -sum(map(len, one[0])))  # templates with longer fixed text come first

    def translate(self, sentence: str, depth: int = 0) -> str:
        """Translate a sentence and the values in it, or return it unchanged if there is no translation.

        *depth* is 0 for a whole sentence, 1 for a value in it, and so on; values that are nested too deeply are not
        translated. If several templates match, one is preferred whose values each lie within one sentence. This does
        not apply to a value at the end of the template, which may contain several sentences.
        """
        if len(sentence) > _MAX_SENTENCE or depth > _MAX_DEPTH:
            return sentence
        if (exact := self._exact.get(sentence)) is not None:
            return exact
        if count := _COUNT.fullmatch(sentence):
            number, noun = count.groups()
            if (template := self._counts.get(noun if number == "1" else noun.removesuffix("s"))) is not None:
                return template.replace(_NUMBER, f"{number} ")
        other: tuple[list[str], list[str], str] | None = None
        for start in dict.fromkeys((sentence[:1], "")):  # templates that begin with text come first
            for literals, fields, translation in self._templates.get(start, ()):
                values = _match_template(sentence, literals)
                if values is None:
                    continue
                closed = values if literals[-1] else values[:-1]
                is_one_sentence = not any(". " in value for value in closed)
                if is_one_sentence:
                    return self._fill(values, fields, translation, depth)
                other = other or (values, fields, translation)
        return sentence if other is None else self._fill(*other, depth)

    def _fill(self, values: list[str], fields: list[str], translation: str, depth: int) -> str:
        shown = [self.translate(value, depth + 1) for value in values]
        return translation.format(**dict(zip(fields, shown, strict=True)))


def _split_template(template: str) -> tuple[list[str], list[str]]:
    """Split a template into its literal parts and the names of its fields.

    The literal parts are the text before, between and after the fields.
    """
    from string import Formatter

    literals, fields = [""], list[str]()
    for literal, field, _format, _conversion in Formatter().parse(template):
        literals[-1] += literal
        if field is not None:
            fields.append(field)
            literals.append("")
    return literals, fields


def _match_template(sentence: str, literals: list[str]) -> list[str] | None:
    """Return the values of a template's fields in a sentence, or None if the sentence does not match.

    *literals* are the parts of the template before, between and after the fields.
    """
    first, *middle, last = literals
    if not sentence.startswith(first) or not sentence.endswith(last) or len(sentence) < len(first) + len(last):
        return None
    values: list[str] = []
    at, end = len(first), len(sentence) - len(last)
    for literal in middle:
        found = sentence.find(literal, at, end)
        if found < 0:
            return None
        values.append(sentence[at:found])
        at = found + len(literal)
    return [*values, sentence[at:end]]


def join_list(items: Iterable[str]) -> str:
    """Join items into one text for display, with the list separator of the user's language."""
    return _(", ").join(items)


def translate_facts(text: str) -> str:
    """Translate a sentence; if it has no translation, translate it as a list, item by item.

    Lists are texts such as "2026-07-28, 10 tools" or "tools, prompts".
    """
    for separator in ("", "; ", ", "):
        parts = text.split(separator) if separator else [text]
        facts = list(map(_translate_fact, parts))
        if facts != parts:
            return join_list(facts) if separator == ", " else separator.join(facts)
    return text


def _translate_fact(fact: str) -> str:
    shown = translate_sentence(fact)
    if shown != fact:
        return shown
    word, mark, rest = fact.partition(" (")
    return f"{_(word)}{_(mark + rest)}"


def translate_sentence(sentence: str) -> str:
    """Translate one or more English sentences, such as an error message.

    Text without a translation is returned unchanged.
    """
    global _sentences  # noqa: PLW0603 - built with the first sentence
    for hint, template in _hints.items():
        if sentence.endswith(hint) and (sentence == hint or sentence.removesuffix(hint).endswith(". ")):
            first = translate_sentence(sentence.removesuffix(hint).rstrip())
            return f"{first}{'' if not first or first.endswith('。') else ' '}{_fill_hint(_(template))}"
    if isinstance(_catalog, _UndecidedCatalog):
        _catalog.decide()
    if _catalog is None or not sentence:
        return sentence
    if _sentences is None:
        # gettext has no public way to list a catalog. The keys of texts with a plural form are tuples.
        known = cast("dict[object, str]", vars(_catalog)["_catalog"])
        mark = f"{SENTENCE}{_SEPARATOR}"
        found = {
            key.removeprefix(mark): value
            for key, value in known.items()
            if isinstance(key, str) and key.startswith(mark)
        }
        counts = {
            key[0].removeprefix(_NUMBER): value
            for key, value in known.items()
            if isinstance(key, tuple) and isinstance(key[0], str) and key[0].startswith(_NUMBER)
        }
        _sentences = SentencePatterns(found, counts)
    shown = ""
    for _number in range(_MAX_SENTENCES):
        whole = _sentences.translate(sentence)
        if whole != sentence or ". " not in sentence or len(sentence) > _MAX_SENTENCE:
            return f"{shown}{whole}"
        first, _dot, sentence = sentence.partition(". ")
        start = _sentences.translate(f"{first}.")
        shown += start if start.endswith("。") else f"{start} "
    return f"{shown}{sentence}"
