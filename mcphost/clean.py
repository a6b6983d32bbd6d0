"""Makes text from outside safe to show: control, direction and invisible characters become visible marks.

One function for every sink (terminal, log view, dialogs). It works on meaning, not on a list of known attacks:
whatever can move the cursor, reorder, hide or fake text is replaced by a mark that can be seen and copied.
"""

import re

# C0 without TAB and LF, DEL, C1; line and paragraph separators; soft hyphen, combining grapheme joiner, Arabic letter
# mark, Hangul fillers, Mongolian separator; zero-width characters, direction marks and overrides, word joiner and the
# invisible operators, deprecated format characters; variation selectors; byte order mark; interlinear marks; lone
# surrogates; tag characters and the supplementary variation selectors (both carried hidden instructions in attacks).
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3"
    "\U000e0000-\U000e0fff]"
)
_UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\U000e0000-\U000e007f]")
_JOINERS = "\u200c\u200d"
_PRESENTATION = "\ufe0e\ufe0f"
_EMOJI_FROM = "\u2190"


def visible(text: str, *, keep_newlines: bool = True) -> str:
    """`text` with everything that could deceive a reader or a terminal replaced by a mark.

    LF and TAB stay, CR LF becomes LF; with `keep_newlines=False` the result is one line. C0 controls become their
    pictures (ESC is `␛`), everything else `‹U+202E›`. Joiners stay where scripts and emoji need them, and so does one
    presentation selector after a character that can have it. Never raises; linear in the length of `text`.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if _ODD.search(text):
        text = _ODD.sub(_mark, text)
    if not keep_newlines and ("\n" in text or "\t" in text):
        text = text.replace("\n", "⏎").replace("\t", " ")
    return text


def _mark(match: re.Match[str]) -> str:
    char = match.group()
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if char in _JOINERS and _joins(match):
        return char
    if char in _PRESENTATION and _presents(match):
        return char
    return f"‹U+{code:04X}›"


def _joins(match: re.Match[str]) -> bool:
    """A joiner between two letters outside ASCII, or inside an emoji sequence."""
    text, at = match.string, match.start()
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    return before > "\x7f" and after > "\x7f" and before not in _JOINERS and after not in _JOINERS


def _presents(match: re.Match[str]) -> bool:
    """A presentation selector directly after a symbol, or in a keycap such as `1️⃣`."""
    text, at = match.string, match.start()
    before = text[at - 1 : at]
    keycap = before in set("0123456789#*") and text[at + 1 : at + 2] == "\u20e3"
    return keycap or before in {"©", "®"} or (before >= _EMOJI_FROM and before not in _PRESENTATION)


def whole(text: str) -> str:
    """`text` without halves of characters: a lone surrogate becomes U+FFFD, so that it can be sent and stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def readable(text: str) -> str:
    """`text` for a model: without control characters, and without tags, which spell words that people cannot see."""
    return _UNSEEN.sub("", text)


def escaped(json_text: str) -> str:
    """JSON text for a terminal: what `visible` marks becomes an escape, so that it stays the same JSON."""
    return _ODD.sub(_escape, json_text) if _ODD.search(json_text) else json_text


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
