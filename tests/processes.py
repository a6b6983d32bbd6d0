"""Helpers for processes that may end at any moment."""

from collections.abc import Iterable

import psutil


def is_alive(pid: int) -> bool:
    """Return whether a process with this pid is running; zombies do not count."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def command_line(process: psutil.Process) -> list[str]:
    """Return the command line of a process, or an empty list if the process has ended."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def processes_with_variable(name: str, value: str) -> list[psutil.Process]:
    """Return the processes with this environment variable, which child processes inherit."""
    return [process for process in psutil.process_iter() if _environment(process).get(name) == value]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def descendants(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process, or an empty list if the process has ended."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill the processes that are still running; a reused pid is safe, because psutil also compares the start time."""
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
