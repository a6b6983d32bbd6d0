"""Tests for forms requested by a server: the fields, which answers are valid, and what is sent back."""

import time
from typing import Any

import pytest

from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.questions.form_fields import MAX_TEXT, Field, Option, validate_content
from mcphost.host.questions.forms import MAX_FIELDS, MAX_NAME, parse_form
from mcphost.serialization import Raw, encode


def form_fields(properties: dict[str, Any], *required: str) -> tuple[Field, ...]:
    return parse_form(Raw(encode({"type": "object", "properties": properties, "required": list(required)})))


def only_field(schema: dict[str, Any]) -> Field:
    (field,) = form_fields({"x": schema})
    return field


def validated_value(schema: dict[str, Any], value: Any) -> Any:
    return validate_content(form_fields({"x": schema}), {"x": value})["x"]


def field_problem(schema: dict[str, Any], value: Any) -> str:
    with pytest.raises(UsageError) as exc_info:
        validated_value(schema, value)
    return exc_info.value.message


@pytest.mark.req("elic.form.string")
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"minLength": 2, "maxLength": 3}, ("ab", "äöü"), ("a", "abcd")),
        ({"format": "email"}, ("ada@example.com", "a.b+c@x"), ("ada", "a@", "@b", "a b@c.d", "a@b@c", "a@b..c")),
        ({"format": "uri"}, ("https://example.com/x?y#z", "mailto:ada@x.org"), ("example.com", "https:// x", "//x")),
        ({"format": "date"}, ("2026-07-28",), ("2026-02-30", "20260728", "2026-7-28", "2026-07-28T00:00:00Z")),
        (
            {"format": "date-time"},
            ("2026-07-28T12:00:00Z", "2026-07-28T12:00:00.5+02:00"),
            ("2026-07-28", "2026-07-28T12:00:00", "2026-07-28T25:00:00Z"),
        ),
        ({"format": "unheard-of"}, ("anything", "1"), (5, True, ["a"])),
        ({"pattern": "^[A-Z]{2}\\d+$"}, ("AB1", "XY123"), ("AB", "ab1", "AB1\n")),
    ],
)
def test_texts_respect_their_length_and_format(schema: dict[str, Any], good: Any, bad: Any) -> None:
    for value in good:
        assert validated_value({"type": "string", **schema}, value) == value
    for value in bad:
        assert field_problem({"type": "string", **schema}, value).startswith("The form has invalid values: 'x' must")


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "(a|a)*b", "a*a*a*a*a*a*a*a*a*b", "(", "\\1", "(?=x)", "[", "a{9999999}"]
)
def test_a_slow_or_invalid_pattern_is_ignored(pattern: str) -> None:
    started_at = time.process_time()
    assert validated_value({"type": "string", "pattern": pattern}, "a" * 400 + "!")
    assert time.process_time() - started_at < 2


def test_no_text_is_endless_and_a_choice_is_exactly_one_of_those_on_offer() -> None:
    assert validated_value({"type": "string", "maxLength": 10**9}, "x" * MAX_TEXT)
    assert f"at most {MAX_TEXT:,} characters" in field_problem(
        {"type": "string", "maxLength": 10**9}, "x" * (MAX_TEXT + 1)
    )
    assert f"at most {MAX_TEXT:,} characters" in field_problem({"type": "string"}, "x" * (MAX_TEXT + 1))
    for other in ("A", "a ", "\u0430", 1, True, ["a"]):
        assert "must be one of" in field_problem({"type": "string", "enum": ["a", "b"]}, other)


def test_secret_looking_names_are_recognized_with_numbers_and_suffixes() -> None:
    assert only_field({"type": "integer", "title": "PIN"}).secret
    assert only_field({"type": "number", "title": "PIN"}).secret
    assert not only_field({"type": "boolean", "title": "PIN"}).secret
    assert only_field({"type": "string", "description": "Your PIN. It is not stored."}).secret
    assert not only_field({"type": "string", "description": "Anything, but never your PIN."}).secret


HUGE = 10**400
"""JSON may hold it, and no float can."""


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_an_out_of_range_number_is_ignored(kind: str) -> None:
    assert only_field({"type": kind, "minimum": -HUGE, "maximum": HUGE, "default": HUGE}) == Field(name="x", kind=kind)  # type: ignore[arg-type]
    assert "must be a number" in field_problem({"type": kind, "maximum": 5}, HUGE)
    assert only_field({"type": "string", "minLength": HUGE}).min_length is None


@pytest.mark.req("elic.form.number")
def test_numbers_stay_in_their_range_and_are_sent_as_numbers() -> None:
    whole = {"type": "integer", "minimum": 1, "maximum": 100}
    assert (validated_value(whole, 1), validated_value(whole, 100), validated_value(whole, 7.0)) == (1, 100, 7)
    assert type(validated_value(whole, 7.0)) is int
    assert validated_value({"type": "number", "maximum": 1000}, 95.5) == 95.5
    for value in (0, 101, 1.5, "5", True, float("inf"), float("nan")):
        assert "must be" in field_problem(whole, value)


@pytest.mark.req("elic.form.boolean")
def test_booleans_are_sent_as_booleans() -> None:
    assert validated_value({"type": "boolean"}, False) is False
    for value in ("true", 1, 0):
        assert "true or false" in field_problem({"type": "boolean"}, value)


@pytest.mark.req("elic.form.enum-names")
@pytest.mark.req("elic.form.enum-single")
@pytest.mark.parametrize(
    ("schema", "titles"),
    [
        ({"enum": ["r", "g"]}, ("r", "g")),
        ({"enum": ["r", "g"], "enumNames": ["Red", "Green"]}, ("Red", "Green")),
        ({"enum": ["r", "g"], "enumNames": ["Red"]}, ("r", "g")),
        ({"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}, ("Red", "Green")),
    ],
)
def test_a_choice_shows_titles_and_sends_values(schema: dict[str, Any], titles: tuple[str, str]) -> None:
    field = only_field({"type": "string", **schema})
    assert field.options == (Option("r", titles[0]), Option("g", titles[1]))
    assert validated_value({"type": "string", **schema}, "r") == "r"
    assert "must be one of 'r', 'g'" in field_problem({"type": "string", **schema}, "Red")


@pytest.mark.req("elic.form.enum-multi")
@pytest.mark.parametrize(
    "items",
    [
        {"type": "string", "enum": ["r", "g", "b"]},
        {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}, {"const": "b", "title": "Blue"}]},
    ],
)
def test_multiple_choices_stay_in_their_bounds_and_are_sent_as_a_list(items: dict[str, Any]) -> None:
    schema = {"type": "array", "items": items, "minItems": 1, "maxItems": 2}
    assert validated_value(schema, ["r", "b"]) == ["r", "b"]
    for value in (["r", "g", "b"], ["x"], ["r", "r"], "r", [5]):
        assert "must" in field_problem(schema, value)
    assert validate_content(form_fields({"x": schema}), {"x": []}) == {}
    with pytest.raises(UsageError, match="is required"):
        validate_content(form_fields({"x": schema}, "x"), {"x": []})


def test_a_default_with_more_values_than_choices_is_dropped() -> None:
    items = {"type": "string", "enum": ["a", "b"]}
    assert only_field({"type": "array", "items": items, "default": ["a"] * 3}).default is None
    assert "each at most once" in field_problem({"type": "array", "items": items}, ["a"] * 3)


@pytest.mark.req("elic.form.enum-multi")
@pytest.mark.parametrize("required", [True, False])
def test_an_empty_choice_is_a_valid_answer_wherever_the_rules_allow_it(required: bool) -> None:
    colours = {"type": "array", "items": {"type": "string", "enum": ["r", "g", "b"]}, "default": ["g"]}
    assert validate_content(form_fields({"x": colours}, *(["x"] if required else [])), {"x": []}) == {"x": []}


@pytest.mark.req("elic.form.enum-multi")
def test_fewer_choices_than_there_must_be_are_refused() -> None:
    two = {"type": "array", "items": {"type": "string", "enum": ["r", "g", "b"]}, "minItems": 2}
    assert "must have at least 2 choices" in field_problem(two, ["r"])


@pytest.mark.req("elic.form.defaults")
def test_fields_left_alone_are_sent_with_their_defaults_in_the_right_type() -> None:
    form = form_fields(
        {
            "name": {"type": "string", "default": "John"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["on", "off"], "default": "on"},
            "colours": {"type": "array", "items": {"type": "string", "enum": ["r", "g"]}, "default": ["g"]},
            "verified": {"type": "boolean", "default": True},
            "nothing": {"type": "string"},
        }
    )
    full = {"name": "John", "age": 30, "score": 95.5, "status": "on", "colours": ["g"], "verified": True}
    assert validate_content(form, {}) == full
    assert validate_content(form, {"age": 31, "verified": False}) == {**full, "age": 31, "verified": False}
    # An emptied field is not the same as an untouched one.
    assert validate_content(form, {"name": None, "age": None}) == {
        key: full[key] for key in ("score", "status", "colours", "verified")
    }


@pytest.mark.parametrize("default", [5, "x" * 9, None, ["a"], {}])
def test_a_default_that_violates_its_own_field_is_dropped(default: Any) -> None:
    assert only_field({"type": "string", "maxLength": 8, "default": default}).default is None


@pytest.mark.req("elic.form.required")
@pytest.mark.req("elic.form.validate")
def test_required_fields_must_be_filled_in_and_empty_optional_ones_are_left_out() -> None:
    form = form_fields(
        {"name": {"type": "string"}, "note": {"type": "string"}, "age": {"type": "integer"}}, "name", "age"
    )
    assert validate_content(form, {"name": "Ada", "age": 3}) == {"name": "Ada", "age": 3}
    assert validate_content(form, {"name": "Ada", "note": None, "age": 3}) == {"name": "Ada", "age": 3}
    with pytest.raises(UsageError) as exc_info:
        validate_content(form, {"name": None, "age": "x", "other": 1})
    for words in ("'name' is required", "'age' must be a whole number", "no field 'other'"):
        assert words in exc_info.value.message


@pytest.mark.req("elic.form.required")
def test_the_empty_text_is_a_valid_answer_wherever_the_rules_allow_it() -> None:
    free, address = {"type": "string"}, {"type": "string", "format": "email"}
    form = form_fields({"note": free, "bounded": {"type": "string", "minLength": 1}, "mail": address})
    assert validate_content(form, {"note": "", "bounded": "", "mail": ""}) == {"note": ""}
    assert validate_content(form_fields({"note": free}, "note"), {"note": ""}) == {"note": ""}
    with pytest.raises(UsageError, match="'mail' must be an email address"):
        validate_content(form_fields({"mail": address}, "mail"), {"mail": ""})


@pytest.mark.req("elic.form.empty")
def test_a_form_without_fields_is_a_plain_confirmation() -> None:
    assert parse_form(Raw(b'{"type":"object","properties":{}}')) == ()
    assert parse_form(Raw(b'{"type":"object"}')) == ()
    assert validate_content((), {}) == {}


@pytest.mark.req("elic.form.unsupported")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "array", "items": {"type": "string"}},
        {"type": "array", "items": {"type": "object"}},
        {"type": "array"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"$ref": "#/$defs/x"},
        {"type": "string", "anyOf": [{"type": "string"}]},
        {"type": "string", "enum": [1, 2]},
        {"type": "string", "enum": []},
        {"type": "string", "enum": ["x"] * 2000},
        {"type": "string", "oneOf": ["a"]},
        {},
        "text",
        None,
    ],
)
def test_a_field_that_forms_may_not_have_is_refused_and_named(schema: Any) -> None:
    with pytest.raises(MalformedMessage, match="'x'"):
        form_fields({"x": schema})


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b'"x"',
        b"{",
        b'{"type":"array"}',
        b'{"$ref":"#/x"}',
        b'{"oneOf":[]}',
        b'{"properties":[]}',
        b'{"required":{}}',
        b'{"required":["x"]}',
        b'{"properties":' + b'{"a":' * 100_000,
        b'{"description":"' + b"x" * 300_000 + b'"}',
        encode({"properties": {f"f{number}": {"type": "string"} for number in range(MAX_FIELDS + 1)}}),
        b'{"required":[{}]}',
        encode({"properties": {"x" * (MAX_NAME + 1): {"type": "string"}}}),
        encode({"properties": {f"f{n}": {"type": "string", "description": "x" * 9_000} for n in range(8)}}),
    ],
)
def test_an_invalid_form_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_form(Raw(raw))


@pytest.mark.req("elic.form.no-secrets")
@pytest.mark.parametrize(
    "name",
    [
        "password",
        "apiKey",
        "API_KEY",
        "secretWord",
        "card_number",
        "token",
        "accessKey",
        "accessToken",
        "userPin",
        "my_otp",
    ],
)
def test_a_field_that_looks_like_a_secret_is_marked(name: str) -> None:
    (field,) = form_fields({name: {"type": "string"}})
    assert field.secret
    (field,) = form_fields({"x": {"type": "string", "title": "Your password"}})
    assert field.secret


@pytest.mark.req("elic.form.no-secrets")
@pytest.mark.parametrize(
    "title",
    [
        "pаsswоrd", "pass\u200bword", "P\u00adIN", "ｐａｓｓｗｏｒｄ", "p4ssword", "pa$$w0rd", "passwörd", "ΡIN",
        "Passwort", "Kennwort", "mot de passe", "contraseña", "senha", "parola", "wachtwoord", "lösenord", "hasło",
        "heslo", "jelszó", "şifre", "mật khẩu", "пароль", "κωδικός πρόσβασης", "סיסמה", "كلمة المرور", "密码", "密碼",
        "パスワード", "暗証番号", "비밀번호", "รหัสผ่าน", "PASSWORT", "ПАРОЛЬ", "ΚΩΔΙΚΌΣ ΠΡΌΣΒΑΣΗΣ",
    ],
)  # fmt: skip
def test_a_secret_is_seen_in_other_languages_and_through_disguises(title: str) -> None:
    assert only_field({"type": "string", "title": title}).secret
    assert only_field({"type": "string", "description": f"1. {title}"}).secret


@pytest.mark.parametrize("title", ["opinion", "1 pint", "palabra clave", "5pm", "日本", "Straße", "passagers", "hasta"])
def test_ordinary_words_of_other_languages_ask_for_no_secret(title: str) -> None:
    assert not only_field({"type": "string", "title": title}).secret


@pytest.mark.req("elic.form.no-secrets")
@pytest.mark.parametrize(
    "words",
    [{"title": "One-time code"}, {"title": "Card number"}, {"description": "The 6 digits of your PIN"},
     {"description": "Paste your access token here"}, {"title": "Recovery codes"}, {"description": "your seed phrase"}],
)  # fmt: skip
def test_titles_and_descriptions_that_ask_for_a_secret_mark_their_field(words: dict[str, str]) -> None:
    assert only_field({"type": "string", **words}).secret
    assert not only_field({"type": "boolean", **words}).secret, "there is nothing to give away"


@pytest.mark.parametrize("name", ["name", "tokens_used", "compass", "spinning", "key"])
def test_an_ordinary_field_is_not_marked(name: str) -> None:
    (field,) = form_fields({name: {"type": "string"}})
    assert not field.secret


@pytest.mark.parametrize("text", ["\ufdfa", "a ", "\ud55c", "compass ", "ﬃ", "e\u0301"])
def test_long_descriptions_are_searched_for_secrets_in_little_time(text: str) -> None:
    schema = {"type": "string", "description": (text * 10_000)[:10_000]}
    began = time.process_time()
    assert not any(field.secret for field in form_fields({f"x{number}": schema for number in range(3)}))
    assert time.process_time() - began < 1


def test_a_description_that_asks_for_no_secret_is_not_marked() -> None:
    assert not only_field(
        {"type": "integer", "description": "any number (do not give us your phone number, pin, or more)"}
    ).secret


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "default": "x" * 4_001},
        {"type": "string", "default": "\u200b" * 1_000},  # each is shown as a mark
        {
            "type": "array",
            "items": {"anyOf": [{"const": str(n), "title": "x" * 50} for n in range(100)]},
            "default": [str(n) for n in range(100)],
        },
    ],
)
def test_a_default_that_is_too_long_to_be_shown_is_left_out(schema: dict[str, Any]) -> None:
    field = only_field(schema)
    assert (field.default, field.is_default_omitted) == (None, True)
    assert not only_field({"type": "string", "default": "x" * 4_000}).is_default_omitted


def test_the_defaults_of_a_form_are_bounded_together() -> None:
    fields = form_fields({f"f{n}": {"type": "string", "default": "x" * 3_000} for n in range(7)})
    assert [field.is_default_omitted for field in fields] == [False] * 5 + [True] * 2


class CountedText(str):
    """A string that counts how often it is compared with another one."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedText.comparisons += 1
        return str.__eq__(self, other)


def test_selected_choices_are_not_compared_with_each_offered_choice() -> None:
    values = [str(number) for number in range(1_000)]
    fields = form_fields({"many": {"type": "array", "items": {"type": "string", "enum": values}}})
    CountedText.comparisons = 0
    assert validate_content(fields, {"many": [CountedText(value) for value in values]}) == {"many": values}
    assert CountedText.comparisons <= 10 * len(values)
