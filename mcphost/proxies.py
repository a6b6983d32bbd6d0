"""The HTTP proxy that the environment sets for a URL."""

from urllib.request import getproxies, proxy_bypass

from mcphost.errors import MalformedMessage
from mcphost.unicode_forms import is_loopback_host, split_url

_SCHEMES = frozenset({"http", "https"})


def proxy_for(url: str) -> str:
    """Return the URL of the proxy that environment variables set for *url*, or "" if there is none.

    Requests to this machine never use a proxy. Raises MalformedMessage if the proxy's URL has no valid host or is
    neither http nor https: without its proxy, a request would go where the user does not expect it.
    """
    parts = split_url(url)
    host = parts.hostname or ""
    if is_loopback_host(host) or proxy_bypass(host):
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy:
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    hint = f"Set HTTPS_PROXY, HTTP_PROXY or ALL_PROXY to an http or https proxy, or add {host} to NO_PROXY."
    try:
        found = split_url(proxy)
        is_valid = bool(found.hostname) and found.hostname.isprintable() and (found.port is None or found.port > 0)
    except ValueError:
        raise MalformedMessage(f"The address of the proxy for {host} is not valid.", hint) from None
    if found.scheme not in _SCHEMES:
        what = f"The proxy for {host} has the scheme {found.scheme[:20]!r}; mcphost supports http and https."
        raise MalformedMessage(what, hint)
    if not is_valid:
        raise MalformedMessage(f"The address of the proxy for {host} is not valid.", hint)
    return proxy
