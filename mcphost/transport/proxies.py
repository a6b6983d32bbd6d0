"""Proxies from the environment: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY."""

from urllib.request import getproxies, proxy_bypass

from mcphost.errors import MalformedMessage
from mcphost.transport.mcp_headers import is_loopback
from mcphost.unicode_forms import split_url

_SCHEMES = frozenset({"http", "https"})


def proxy_for(url: str) -> str:
    """Return the proxy for *url*, or "". Raises MalformedMessage for an invalid one."""
    parts = split_url(url)
    host = parts.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    scheme = split_url(proxy).scheme
    if proxy and scheme not in _SCHEMES:
        raise MalformedMessage(f"The proxy for {host} has the scheme {scheme[:20]!r}; mcphost supports http and https")
    return proxy
