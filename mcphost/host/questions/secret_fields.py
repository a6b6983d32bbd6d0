"""Detection of form fields that ask for secrets, in several languages and disguises."""

import re
import unicodedata
from collections.abc import Iterator

from mcphost.config.confusable_names import ascii_skeleton
from mcphost.sanitize import strip_unsafe
from mcphost.unicode_forms import normalize

_SECRET = re.compile(
    r"pass[-_ ]?(word|wd|phrase|code)|secret|\btoken\b|(api|private|access|recovery|ssh)[-_ ]?keys?\b"
    r"|credential|\b(cvv|cvc|pin|otp|totp|2fa|mfa|iban|ssn)\b|card[-_ ]?num|credit[-_ ]?card"
    r"|(one[-_ ]?time|verification|security|sms|recovery|backup)[-_ ]?codes?\b|seed[-_ ]?phrase|mnemonic"
    # Without accents: German, French, Spanish, Portuguese, Italian, Dutch, the Nordic languages.
    r"|passwort|kennwort|geheim(nis|zahl|code)|zugangsdaten|mot[-_ ]de[-_ ]passe|\bmdp\b|contrasen[ay]a?|contrasinal"
    r"|\bclave[-_ ](de[-_ ]acceso|secreta|privada)|codigo[-_ ]secreto|\bsenha\b|palavra[-_ ]passe"
    r"|\bparola\b|segreto|wachtwoord|losenord|adgangskode|kodeord|passord|salasana"
    # Polish, Czech and Slovak, Slovenian, Hungarian, Estonian, Turkish, Vietnamese, Indonesian.
    r"|\bhas[lł]o\b|\bheslo\b|\bgeslo\b|jelszo|parool|\bsifre\b|mat[-_ ]khau|kata[-_ ]sandi",
    re.IGNORECASE,
)
# Words in other alphabets: Russian and Ukrainian, Bulgarian and Serbian, Greek, Hebrew, Arabic,
# Persian, Hindi, Thai, Chinese, Japanese, Korean.
_SECRET_OTHER_SCRIPTS = re.compile(
    "пароль|парола|лозинка|секрет|κωδικ[όο]ς πρ[όο]σβασης|συνθηματικ[όο]|ססמה|סיסמה|סיסמא|كلمة (ال)?(مرور|سر)|رمز عبور"
    "|पासवर्ड|รหัสผ่าน|密码|密碼|口令|密钥|密鑰|パスワード|暗証番号|秘密|비밀번호|암호|패스워드",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(not|never|no|without)\b|n't\b", re.IGNORECASE)
_WORD_BOUNDARY = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])_(?=[A-Za-z])")
_DIGITS_AS_LETTERS = str.maketrans("013457@$!", "oieastasi")


def looks_secret(name: str, title: str = "", description: str = "") -> bool:
    """Return whether a field seems to ask for a secret, which does not belong in a form.

    A negated description ("do not give us your PIN") does not count.
    """
    if any(_find_secret_word(variant) for word in (name, title) for variant in _variants(word)):
        return True
    for variant in _variants(description):
        match = _find_secret_word(variant)
        if match is not None and not _NEGATION.search(variant[: match.start()]):
            return True
    return False


def _find_secret_word(text: str) -> "re.Match[str] | None":
    return _SECRET.search(text) or _SECRET_OTHER_SCRIPTS.search(text)


def _variants(text: str) -> Iterator[str]:
    """Yield the text as a person may read it: as is, as ASCII without accents, with digits as letters."""
    plain = normalize("NFKC", strip_unsafe(text))
    yield plain
    separated = _WORD_BOUNDARY.sub(" ", plain)
    decomposed = normalize("NFD", ascii_skeleton(separated))
    unaccented = "".join(char for char in decomposed if not unicodedata.combining(char))
    yield unaccented
    yield unaccented.translate(_DIGITS_AS_LETTERS)
