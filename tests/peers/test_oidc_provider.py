"""A real authorization server that is not ours: signed in, renewed, rotated, stepped up, revoked, found again."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from mcphost.auth.identities import Identities
from mcphost.auth.keep import Keep
from mcphost.auth.signin import Person
from mcphost.client.open import SessionOpener
from mcphost.config.schema import ServerConfig
from mcphost.protocol.tools import CallTool, ListTools
from tests.peers import node
from tests.unit.auth.test_tokens_over_time import FileVault
from tests.unit.client.people import Answers, Notes

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
FORM = re.compile(r'action="([^"]+)"')
XSRF = re.compile(r'name="xsrf" value="(\w+)"')
PROMPT = re.compile(r'name="prompt" value="(\w+)"')


@dataclass
class Provider:
    origin: str
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def server(self) -> ServerConfig:
        return ServerConfig(name="oidc", url=f"{self.origin}/mcp")

    def grants(self, event: str = "grant.success") -> list[str]:
        return [one["grant"] for one in self.events if one["event"] == event]


@asynccontextmanager
async def provider(seconds: int = 60) -> AsyncIterator[Provider]:
    script = str(Path(__file__).with_name("oidc.mjs"))
    command = [node.node(), script, str(node.package_root() / "node_modules"), str(seconds)]
    async with await anyio.open_process(command, stderr=None) as process:
        try:
            assert process.stdout
            lines = _lines(process.stdout)
            one = Provider(json.loads(await anext(lines))["origin"])

            async def listen() -> None:
                async for line in lines:
                    if line.startswith("{"):
                        one.events.append(json.loads(line))
                    else:
                        print(line)  # the library's own words

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                yield one
                tasks.cancel_scope.cancel()
        finally:
            process.kill()


async def _lines(stream: Any) -> AsyncIterator[str]:
    rest = b""
    async for chunk in stream:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode()


@dataclass
class Someone:
    """Fills in the login form and the consent form, as a person does."""

    times: int = 0

    codes: list[str] = field(default_factory=list)

    async def sign_in(self, *, url: str, code: str, **shown: Any) -> str | None:
        self.times += 1
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as browser:
            page = await browser.get(url)
            if code:
                self.codes.append(code)
                hidden = XSRF.search(page.text)
                assert hidden
                page = await browser.post(url, data={"xsrf": hidden[1], "user_code": code})
                page = await browser.post(url, data={"xsrf": hidden[1], "user_code": code, "confirm": "yes"})
            while prompt := PROMPT.search(page.text):
                action = FORM.search(page.text)
                assert action
                form = {"prompt": prompt[1], "login": "ada", "password": "any"}
                page = await browser.post(str(page.url.join(action[1])), data=form)
            assert code or "Answer received" in page.text, page.text
        return ""


def opener(folder: Path, person: Person) -> SessionOpener:
    folder.mkdir(exist_ok=True)
    return SessionOpener(expand=str, identities=Identities(Keep(FileVault(folder / "vault"), folder), person))


@pytest.mark.req(
    "auth.asm.both-mechanisms", "auth.refresh.rotation", "auth.refresh.use", "auth.stepup.403", "auth.iss.required"
)
async def test_the_whole_life_of_a_sign_in(npm_peers: Path, tmp_path: Path) -> None:
    person = Someone()
    async with provider(seconds=2) as one:
        async with opener(tmp_path, person).open(one.server, Answers(), Notes()) as session:
            await session.request(ListTools())
            assert one.grants() == ["authorization_code"]
            for _ in range(2):
                await anyio.sleep(2)  # the token ends
                await session.request(ListTools())
            assert one.grants()[1:] == ["refresh_token"] * 2
            said = await session.request(CallTool("whoami", {}))
            assert "ada may tools:read tools:write" in bytes(said.content[0]).decode()
            assert person.times == 2
        # another start of the program
        async with opener(tmp_path, person).open(one.server, Answers(), Notes()) as session:
            await session.request(CallTool("whoami", {}))
        assert person.times == 2
        assert one.grants("grant.error") == []
        identities = Identities(Keep(FileVault(tmp_path / "vault"), tmp_path), person)
        auth = identities.of(one.server, warn=print, proxy_for=lambda url: "")
        assert auth is not None
        gone, revoked = await auth.logout()
        assert gone is not None
        assert revoked
        async with opener(tmp_path, person).open(one.server, Answers(), Notes()):
            assert person.times == 3


@pytest.mark.req("auth.refresh.single-flight", "auth.refresh.rotation")
async def test_several_programs_that_renew_at_once_keep_the_family_alive(npm_peers: Path, tmp_path: Path) -> None:
    person = Someone()
    async with provider(seconds=2) as one:
        async with opener(tmp_path, person).open(one.server, Answers(), Notes()):
            pass
        await anyio.sleep(2)

        async def program() -> None:
            async with opener(tmp_path, person).open(one.server, Answers(), Notes()) as session:
                await session.request(ListTools())

        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(program)
            await anyio.sleep(2)
    assert person.times == 1
    assert one.grants("grant.error") == []
    assert one.grants("grant.revoked") == []


async def test_a_code_is_entered_anywhere_and_the_token_arrives_here(npm_peers: Path, tmp_path: Path) -> None:
    person = Someone()
    async with provider() as one:
        identities = Identities(Keep(FileVault(tmp_path / "vault"), tmp_path), person)
        auth = identities.of(one.server, warn=print, proxy_for=lambda url: "")
        assert auth is not None
        await auth.login(device=True)
        async with opener(tmp_path, person).open(one.server, Answers(), Notes()) as session:
            await session.request(ListTools())
    assert len(person.codes) == person.times == 1
    assert one.grants()[0].endswith("device_code")
