"""Translation of the lines that describe a server's entry or an installation plan.

A line is, for example, "command: npx". Within the program, the lines are always in English, because approvals
store and compare them. They are translated only for display.
"""

from mcphost.translation import N_, _, translate_sentence

LINE_LABELS = (
    N_("address"),
    N_("argument"),
    N_("certificates"),
    N_("command"),
    N_("digest"),
    N_("disabled tool"),
    "environment file",  # shown as the text of _SHOWN_LABELS
    N_("environment"),
    N_("file"),
    N_("folder"),
    N_("header"),
    N_("inputs"),
    N_("needs"),
    N_("never"),
    N_("results: reviewed by you before the model gets them"),
    N_("runs"),
    N_("same server as yours"),
    N_("sign-in"),
    N_("started in"),
    N_("value of"),
    N_("version"),
)
"""Labels of the lines; a number or a name may follow. A label precedes any shorter label that it begins with."""

_SENTENCE_LABELS = frozenset({"digest", "needs"})
"""Labels of the lines whose values are also translated, if they are sentences."""

_SHOWN_LABELS = {"environment file": N_("file with environment variables")}
"""Labels that are shown in other words: after "environment", other lines have the name of a variable."""

_DIFF_MARKS = ("- ", "+ ", "  ")


def translate_line(line: str) -> str:
    """Translate the label of a line, such as "command"; most values stay as they are.

    The line may begin with a diff mark ("+ ", "- " or two spaces), which is kept.
    """
    mark = line[:2] if line.startswith(_DIFF_MARKS) else ""
    text = line[len(mark) :]
    label = next((one for one in LINE_LABELS if text.startswith(one) and text[len(one) : len(one) + 1] in " :"), "")
    if not label:
        return line
    rest = text[len(label) :]
    if label in _SENTENCE_LABELS:
        rest = f": {_translate_sentences(rest.removeprefix(': '))}"
    elif label == "file":
        rest = _(", as ").join(rest.rsplit(N_(", as "), 1))
    return f"{mark}{_(_SHOWN_LABELS.get(label, label))}{rest}"


def translate_pair(line: str) -> tuple[str, str]:
    """Return the label and the value of a line, translated as `translate_line` does."""
    shown = translate_line(line)
    # Some labels include the value; the translation then has the colon of its language.
    colon = "：" if line in LINE_LABELS and "：" in shown else ": "
    label, _colon, value = shown.partition(colon)
    return label, value


def _translate_sentences(value: str) -> str:
    first, stop, rest = value.partition(". ")
    if not stop:
        return translate_sentence(value)
    # Translated separately: in a template that begins with a name, the name would match the whole first sentence.
    shown = translate_sentence(f"{first}.")
    return f"{shown}{'' if shown.endswith('。') else ' '}{translate_sentence(rest)}"
