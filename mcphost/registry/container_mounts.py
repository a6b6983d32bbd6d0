"""Checks of container mounts; only the user may choose which folders of this machine are mounted."""

import posixpath
import re
from collections.abc import Iterator

from mcphost.errors import RegistryError
from mcphost.sanitize import quote_text

MOUNT_OPTIONS = frozenset({"-v", "--volume", "--mount"})
"""Options of `docker run` that mount something."""
_MACHINE_PATHS = ("/var/run", "/run", "/var/lib", "/proc", "/sys", "/dev", "/etc", "/root", "/boot", "/private")
"""System folders that cannot be mounted; on macOS, `/private` contains the real `/etc` and `/var`."""
_KEYS = {
    "type": "type", "source": "source", "src": "source", "target": "target", "dst": "target", "destination": "target",
    "readonly": "readonly", "ro": "readonly", "consistency": "consistency", "tmpfs-size": "tmpfs-size",
    "tmpfs-mode": "tmpfs-mode",
}  # fmt: skip
"""Keys of `--mount` that are allowed, with their usual names; others could mount a device or another file system."""
_VOLUME_FLAGS = frozenset({"ro", "rw", "z", "Z", "cached", "delegated", "consistent", "nocopy"})
"""Flags of `-v` that are allowed; others could propagate mounts from this machine to the container, or the reverse."""
_VOLUME_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,100}")
# Text of a registry entry never contains a zero byte, so it cannot imitate a mark.
_MARK = re.compile("\0([^\0]*)\0")
_USER_PATH = re.compile("(?:\0[^\0]*\0)+(?:/.*)?")
_PLACEHOLDER = re.compile(r"<[^<>]{1,100}>")
"""Placeholder for a value that the user has not entered yet."""
_REFERENCE = re.compile(r"\$\{[^${}]*\}")


def mark_input(name: str) -> str:
    """Return a placeholder for the value of an input; `host_path_inputs` recognizes this placeholder.

    *name* is the name of the input.
    """
    return f"\0{name}\0"


def check_mount(option: str, value: str) -> None:
    """Check a container mount after the values of all inputs have been filled in.

    *option* is the option of the mount, such as `--mount`, and *value* is its value. Raises RegistryError unless
    the mount is a named volume, a temporary file system, or a folder that does not overlap with a system folder.
    """
    if '"' in value:  # Docker parses --mount as CSV, so quotes could hide a path
        raise RegistryError(f"The runtime argument {option} {_show(value)} has quotes.")
    # Only the user's values contain references; a colon in one separates nothing.
    text = _REFERENCE.sub("<reference>", value)
    for part in text.replace(":", ",").split(","):
        if _is_outside_path(path := part.rpartition("=")[2]):
            raise _access_error(option, value, path)
    if option != "--mount":
        _, *more = text.split(":")
        flags = more[1].split(",") if len(more) > 1 else []
        if len(more) > 2 or not all(flag in _VOLUME_FLAGS or _PLACEHOLDER.fullmatch(flag) for flag in flags):
            raise _kind_error(option, value)
        return
    if _PLACEHOLDER.fullmatch(text):
        return
    fields = list(_split_fields(option, text))
    keys = [key for key, _ in fields]
    if len(set(keys)) < len(keys) or ("source" in keys) != (("type", "bind") in fields):
        raise _kind_error(option, value)


def host_path_inputs(option: str, value: str) -> frozenset[str]:
    """Return the names of the inputs that determine which folder of this machine a container can access.

    *option* is the option of the mount, such as `--mount`. *value* is its value, in which the placeholders returned
    by `mark_input` represent the inputs. Raises RegistryError if the registry entry itself specifies the folder.
    """
    if _MARK.fullmatch(value):
        return _names_in(value)
    if option != "--mount":
        source, colon, _ = value.partition(":")
        if _VOLUME_NAME.fullmatch(source) or (not colon and "\0" not in source):
            return frozenset()
        return _check_source(option, value, source)
    fields = dict(_split_fields(option, value))
    if fields.get("type") == "tmpfs":
        return frozenset()
    return _check_source(option, value, fields.get("source", ""))


def _check_source(option: str, value: str, source: str) -> frozenset[str]:
    # What is below a folder that the user named is a part of it.
    if not _USER_PATH.fullmatch(source) or ".." in _MARK.sub("", source).split("/"):
        raise _access_error(option, value, source)
    return _names_in(source)


def _split_fields(option: str, value: str) -> Iterator[tuple[str, str]]:
    """Yield the key and value of each field of a `--mount` option; aliases of keys are replaced.

    The type must be given, because Docker's default is a volume, whose options can mount anything. Raises
    RegistryError if a field or the type is not allowed.
    """
    has_type = False
    for field in value.split(","):
        name, _, text = field.partition("=")
        key = _KEYS.get(name.lower())
        if key is None or (key == "type" and text.lower() not in ("bind", "tmpfs")):
            raise _kind_error(option, value)
        has_type = has_type or key == "type"
        yield key, text.lower() if key == "type" else text
    if not has_type:
        raise _kind_error(option, value)


def volume_name(option: str, value: str) -> str:
    """Return the name of the volume that a mount uses, or "" if it uses none."""
    source, colon, _ = value.partition(":")
    return source if colon and option != "--mount" and _VOLUME_NAME.fullmatch(source) else ""


def is_volume_name(text: str) -> bool:
    """Return whether *text* is the name of a volume instead of a path."""
    return _VOLUME_NAME.fullmatch(text) is not None


def _is_outside_path(path: str) -> bool:
    """Return whether a path is a relative path with "..", or overlaps with a system folder."""
    if not path.startswith("/"):
        return ".." in path.split("/")
    # File names on macOS are case-insensitive.
    below = f"{posixpath.normpath('/' + path.lstrip('/')).rstrip('/')}/".casefold()
    return any(below.startswith(f"{machine}/") or machine.startswith(below) for machine in _MACHINE_PATHS)


def _names_in(text: str) -> frozenset[str]:
    return frozenset(match[1] for match in _MARK.finditer(text))


def _access_error(option: str, value: str, path: str) -> RegistryError:
    return RegistryError(f"The runtime argument {option} {_show(value)} gives the container access to {_show(path)}.")


def _kind_error(option: str, value: str) -> RegistryError:
    return RegistryError(
        f"The runtime argument {option} {_show(value)} is neither a folder, a named volume nor a temporary file system."
    )


def _show(text: str) -> str:
    return quote_text(_MARK.sub(r"{\1}", text))
