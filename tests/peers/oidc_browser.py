"""A browser that signs in to oidc-provider and consents: `python oidc_browser.py LOGIN ADDRESS [CODE]`.

The tests set $BROWSER to this program, which is then called with a URL like any browser.
"""

import re
import sys
from collections.abc import Callable, Sequence

import httpx

Hook = Callable[[httpx.Request], None]

FORM = re.compile(r'action="([^"]+)"')
XSRF = re.compile(r'name="xsrf" value="(\w+)"')
PROMPT = re.compile(r'name="prompt" value="(\w+)"')


class _OtherMachine(Exception):
    """Raised if the browser is redirected to a listener that runs on another machine."""


def visit_elsewhere(address: str, login: str) -> str:
    """Sign in with a browser on another machine; return the callback URL, which this browser cannot open."""

    def elsewhere(request: httpx.Request) -> None:
        if request.url.path.startswith("/callback"):
            raise _OtherMachine(str(request.url))

    try:
        page = complete_sign_in(address, login, hooks=[elsewhere])
    except _OtherMachine as error:
        return str(error)
    raise AssertionError(page)


def complete_sign_in(address: str, login: str, code: str = "", hooks: Sequence[Hook] = ()) -> str:
    """Open the URL, enter the device code if there is one, log in and consent; return the text of the last page."""
    with httpx.Client(
        follow_redirects=True, trust_env=False, verify=False, event_hooks={"request": [*hooks]}
    ) as browser:
        page = browser.get(address)
        if code:
            hidden = XSRF.search(page.text)
            assert hidden, page.text
            page = browser.post(address, data={"xsrf": hidden[1], "user_code": code})
            page = browser.post(address, data={"xsrf": hidden[1], "user_code": code, "confirm": "yes"})
        while prompt := PROMPT.search(page.text):
            action = FORM.search(page.text)
            assert action, page.text
            form = {"prompt": prompt[1], "login": login, "password": "any"}
            page = browser.post(str(page.url.join(action[1])), data=form)
    return page.text


if __name__ == "__main__":
    complete_sign_in(sys.argv[2], sys.argv[1], *sys.argv[3:])
