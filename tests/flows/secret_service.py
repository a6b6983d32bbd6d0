"""A Secret Service for a single test: an unlocked gnome-keyring on a private D-Bus."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import skip_or_fail
from tests.processes import descendants, kill

LOGIN_COLLECTION = "/org/freedesktop/secrets/collection/login"
REQUIRED_PROGRAMS = ("dbus-daemon", "gnome-keyring-daemon")


class SecretServiceEnvironment(dict[str, str]):
    """The environment variables that make a program use a test's own Secret Service."""

    daemon: "subprocess.Popen[bytes]"

    @property
    def aborted(self) -> bool:
        """Return whether the daemon aborted.

        gnome-keyring 42 aborts occasionally, with "GLib-GIO:ERROR: invoke_get_property_in_idle_cb: assertion failed".
        """
        return self.daemon.poll() == -signal.SIGABRT


@contextmanager
def secret_service(folder: Path) -> Iterator[SecretServiceEnvironment]:
    """Run a keyring for one test until the block ends; yield the environment that makes programs use it."""
    if sys.platform != "linux":
        pytest.skip("a Secret Service exists on Linux only")
    if absent := [name for name in REQUIRED_PROGRAMS if shutil.which(name) is None]:
        skip_or_fail(f"not installed: {absent}")
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    home = {"HOME": str(folder), "XDG_RUNTIME_DIR": str(runtime), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    bus = ["dbus-daemon", "--session", "--nofork", "--print-address"]
    keyring = ["gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"]
    with subprocess.Popen(bus, env=home, stdout=subprocess.PIPE, text=True) as daemon:
        try:
            assert daemon.stdout
            env = {**home, "DBUS_SESSION_BUS_ADDRESS": daemon.stdout.readline().strip()}
            with subprocess.Popen(keyring, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as secrets:
                try:
                    assert secrets.stdin
                    secrets.stdin.write(b"pw")
                    secrets.stdin.close()
                    _wait_until_unlocked(env["DBUS_SESSION_BUS_ADDRESS"])
                    ways = SecretServiceEnvironment(
                        {name: env[name] for name in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")}
                    )
                    ways.daemon = secrets
                    yield ways
                finally:
                    secrets.kill()
        finally:
            kill(descendants(daemon.pid))
            daemon.kill()


def _wait_until_unlocked(address: str) -> None:
    """Wait until the keyring is unlocked, without a request that would make the bus start a second, locked daemon."""
    # On Linux only.
    import secretstorage
    from jeepney.bus_messages import message_bus
    from jeepney.io.blocking import open_dbus_connection
    from jeepney.wrappers import DBusErrorResponse

    asked: Any = message_bus.NameHasOwner("org.freedesktop.secrets")  # pyright: ignore[reportUnknownMemberType]
    deadline = time.monotonic() + 20
    with closing(open_dbus_connection(address)) as bus:
        while True:
            reply: Any = bus.send_and_get_reply(asked)  # pyright: ignore[reportUnknownMemberType]
            with suppress(DBusErrorResponse, secretstorage.SecretStorageException):
                if reply.body[0] and not secretstorage.Collection(bus, LOGIN_COLLECTION).is_locked():
                    return
            assert time.monotonic() < deadline, "gnome-keyring does not open its collection"
            time.sleep(0.02)
