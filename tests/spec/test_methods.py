"""Tests that mcphost's method tables match the schema of each revision and the message classes in the code."""

import importlib
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcphost import protocol
from mcphost.cli.doctor import (
    CLIENT_NOTIFICATIONS,
    CLIENT_REQUESTS,
    EXTENSION_REQUESTS,
    SERVER_NOTIFICATIONS,
    SERVER_REQUESTS,
    methods_in,
)
from mcphost.protocol.base import ClientRequest, Notification
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import CreateMessage, Elicit, ListRoots

SCHEMAS = Path(__file__).parent / "schema"
# What a client or a server may send and mcphost does not support, with the reason.
UNUSED = {
    "notifications/progress": "nothing that a server asks of us takes steps we could count",
}
# The client answers these, and does not send them.
NEVER_SENT = {"tasks/list"}


def methods(revision: Revision, union: str) -> set[str]:
    whole = json.loads((SCHEMAS / f"{revision}.json").read_text(encoding="utf-8"))
    names = whole["$defs" if "$defs" in whole else "definitions"]
    members = [item["$ref"].rsplit("/", 1)[-1] for item in names[union].get("anyOf", [])] if union in names else []
    if union in names and "properties" in names[union]:
        members = [union]
    return {names[member]["properties"]["method"]["const"] for member in members}


@pytest.mark.parametrize("revision", Revision)
def test_each_request_of_a_revision_is_listed_if_we_send_it(revision: Revision) -> None:
    assert set(methods_in(revision, CLIENT_REQUESTS)) == methods(revision, "ClientRequest") - NEVER_SENT


@pytest.mark.parametrize("revision", Revision)
def test_the_notices_we_send_are_those_of_the_revision(revision: Revision) -> None:
    assert set(methods_in(revision, CLIENT_NOTIFICATIONS)) == methods(revision, "ClientNotification") - UNUSED.keys()


@pytest.mark.parametrize("revision", Revision)
def test_every_server_request_and_notification_is_handled(revision: Revision) -> None:
    asked = methods(revision, "ServerRequest")
    if revision.era == "stateless":
        asked = methods(revision, "InputRequest")
    assert set(methods_in(revision, SERVER_REQUESTS)) == asked
    assert set(methods_in(revision, SERVER_NOTIFICATIONS)) == methods(revision, "ServerNotification")


def kinds(base: type[Any]) -> Iterator[type[Any]]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds(kind)


def test_each_method_of_the_tables_has_its_type_and_each_type_its_method() -> None:
    for module in pkgutil.iter_modules(protocol.__path__):
        importlib.import_module(f"mcphost.protocol.{module.name}")
    calls = {
        kind.METHOD
        for kind in kinds(ClientRequest)
        if hasattr(kind, "METHOD") and kind.__module__.startswith("mcphost.")
    }
    notices = {kind.METHOD for kind in kinds(Notification) if getattr(kind, "METHOD", "")}
    assert calls - NEVER_SENT == CLIENT_REQUESTS.keys() | {
        method for table in EXTENSION_REQUESTS.values() for method in table
    }
    assert notices == CLIENT_NOTIFICATIONS.keys() | SERVER_NOTIFICATIONS.keys()
    assert {CreateMessage.METHOD, Elicit.METHOD, ListRoots.METHOD} < SERVER_REQUESTS.keys()
