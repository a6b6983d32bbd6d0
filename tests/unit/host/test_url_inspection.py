"""Tests for inspecting URLs that a server asks the user to visit: warnings, and URLs that are never opened."""

import pytest

from mcphost.errors import MalformedMessage
from mcphost.host.server_requests.elicitation import MAX_URL, inspect_url


@pytest.mark.req("sec.url-sanitise")
@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//example.com", "https://", "https:///x", "https:example.com", "ftp://example.com",
        "http://example.com", "http://localhost.example.com", "http://notlocalhost", "http://192.168.0.1",
        "https://example.com\\@good.com", "https://example.com/<x>", "file:///etc/passwd", "data:text/html,x",
        "HTTP://example.com", "https://[::1", "https://a:99999/", 'https://example.com/"', "https://example.com/a b",
        "https://example.com/\u202ex", "https://exam\u00adple.com", "https://example.com/\n", "https://example.com:99999",
        "https://good.com%2eevil.com", "https://good.com%00.evil.com", "https://good.com;evil.com",
        "https://good.com,evil.com", "https://good.com&evil.com", "https://$home.com", "https://*.com",
        "https://[::1%25eth0]/", f"https://example.com/{'x' * MAX_URL}",
        f"https://example.com/{'ä' * (MAX_URL // 3)}",
    ],
)  # fmt: skip
def test_no_browser_opens_a_value_that_is_no_plain_url(url: str) -> None:
    with pytest.raises(MalformedMessage):
        inspect_url(url)


@pytest.mark.req("elic.url.highlight")
@pytest.mark.parametrize(
    ("url", "host", "words"),
    [
        ("https://example.com/pay?x=1#y", "example.com", ()),
        ("https://a_b.example.com:443/", "a_b.example.com", ()),
        ("http://localhost:80/x", "localhost", ("not encrypted",)),
        ("http://127.0.0.1/", "127.0.0.1", ("not encrypted",)),
        ("http://[::1]/", "::1", ("not encrypted",)),
        (
            "https://good.com@evil.org/",
            "evil.org",
            ("before the @ is a user name, not the host: it leads to evil.org",),
        ),
        ("https://good.com:1@evil.org/", "evil.org", ("before the @",)),
        ("https://example.com:8443/", "example.com", ("unusual port 8443",)),
        ("https://good.com.evil.org/", "good.com.evil.org", ("identifies its owner: evil.org",)),
        ("https://good.com\u3002evil.org/", "good.com.evil.org", ("identifies its owner: evil.org",)),
        ("https://2130706433/", "2130706433", ("is an IP address",)),
        ("https://0x7f.1/", "0x7f.1", ("is an IP address",)),
        ("https://[2001:db8::1]/", "2001:db8::1", ("is an IP address",)),
        ("https://xn--pple-43d.com/login", "xn--pple-43d.com", ("look like others",)),
        ("https://\u0430pple.com/", "xn--pple-43d.com", ("shown as \u0430pple.com",)),
        (
            "https://accounts.google.com.evil.example/",
            "accounts.google.com.evil.example",
            ("identifies its owner: evil.example",),
        ),
        ("https://\u0440aypal.org/", "xn--aypal-uye.org", ("letters that can look like others",)),
    ],
)
def test_the_host_and_the_oddities_of_the_url_are_named(url: str, host: str, words: tuple[str, ...]) -> None:
    leads = inspect_url(url)
    assert leads.host == host
    assert len(leads.warnings) == len(words)
    assert all(word in warning for word, warning in zip(words, leads.warnings, strict=True))
    assert host in leads.url
    assert leads.url.isascii()
    assert not url.isascii() or leads.url == url


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        (
            "https://\u0430pple.com:8443/\u00fc?q={a|b}&r=%20#\u00df",
            "https://xn--pple-43d.com:8443/%C3%BC?q=%7Ba%7Cb%7D&r=%20#%C3%9F",
        ),
        ("https://example.com/a;b=$c?x=%7B'1'#/in/@me", "https://example.com/a;b=$c?x=%7B'1'#/in/@me"),
        ("https://me@b\u00fc.example/", "https://me@xn--b-eha.example/"),
    ],
)
def test_an_address_is_shown_as_the_browser_gets_it(url: str, whole: str) -> None:
    assert inspect_url(url).url == whole
    assert inspect_url(whole).url == whole
