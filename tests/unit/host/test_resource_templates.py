"""Tests for URIs from templates: the relevant examples of RFC 6570, and mistakes of servers."""

import pytest

from mcphost.errors import UsageError
from mcphost.host.servers import features
from mcphost.host.servers.features import expand_template, template_variables


@pytest.mark.req("res.templates.expand")
@pytest.mark.parametrize(
    ("template", "values", "address"),
    [
        ("demo://r/{id}", {"id": "12"}, "demo://r/12"),
        ("x://{id}", {"id": "a b/c?&é%"}, "x://a%20b%2Fc%3F%26%C3%A9%25"),
        ("file://{+path}", {"path": "/a b/c.txt"}, "file:///a%20b/c.txt"),
        ("file://{+path}", {"path": "/a%20b/ü c%"}, "file:///a%20b/%C3%BC%20c%25"),
        ("x://s{?q,lang}", {"q": "a&b", "lang": ""}, "x://s?q=a%26b&lang="),
        ("x://s{?q,lang}", {"lang": "en"}, "x://s?lang=en"),
        ("x://s{?q,lang}", {}, "x://s"),
        ("x://s?fixed=1{&x}", {"x": "2"}, "x://s?fixed=1&x=2"),
        ("x://a{/b,c}", {"b": "1/2", "c": "3"}, "x://a/1%2F2/3"),
        ("x://a{.b}{#f}", {"b": "b", "f": "a b!"}, "x://a.b#a%20b!"),
        ("x://a{;b}", {"b": "1"}, "x://a;b=1"),
        ("x://{name:3}", {"name": "abcdef"}, "x://abc"),
        ("git://日本/{x}", {"x": "1"}, "git://%E6%97%A5%E6%9C%AC/1"),
        ("plain:text", {}, "plain:text"),
    ],
)
def test_values_are_written_into_an_address(template: str, values: dict[str, str], address: str) -> None:
    assert expand_template(template, values) == address


def test_a_form_asks_for_each_variable_once_and_in_order() -> None:
    assert template_variables("x://{b}/{a}{?c,b}{&d*}{e:3}") == ("b", "a", "c", "d", "e")
    assert template_variables("x://y") == ()


@pytest.mark.parametrize(
    ("template", "values", "words"),
    [
        ("x://{a", {}, "braces"),
        ("x://a}", {}, "braces"),
        ("x://{}", {}, "no meaning"),
        ("x://{!a}", {}, "no meaning"),
        ("x://{a:b}", {}, "cannot be read"),
        ("x" * 9000, {}, "over"),
        ("x://" + "".join(f"{{a{n}}}" for n in range(101)), {}, "over 100"),
        ("x://{a}", {"b": "1"}, "no variable"),
        ("x://{a}", {"a": "y" * 9000}, "over"),
        ("x://{a}", {"a": "é" * 5000}, "too long"),
        ("x://{a}", {"a": "\ud800"}, "cannot be part"),
        ("{a}", {}, "empty"),
    ],
)
def test_an_invalid_template_or_address_is_reported(template: str, values: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        expand_template(template, values)


def test_limits_apply_as_configured() -> None:
    most = features.TEMPLATE_URI_LIMIT
    assert len(expand_template("{a}", {"a": "y" * most})) == most
