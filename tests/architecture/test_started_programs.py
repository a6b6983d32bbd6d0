"""Tests that starting a program runs nothing from the current folder, which may contain files of any project."""

import ast

from tests.architecture.source_tree import module_name, module_paths, parse


def test_every_module_run_with_python_is_started_in_safe_path_mode() -> None:
    started = {
        f"{module_name(path)}:{node.lineno}": words
        for path in module_paths()
        for node in ast.walk(parse(path))
        if (words := words_after_the_interpreter(node)) is not None
    }
    assert started
    assert {at: words for at, words in started.items() if words[:1] != ["-P"]} == {}


def words_after_the_interpreter(node: ast.AST) -> list[str] | None:
    """Return the arguments of a command line that starts with sys.executable, or None for any other expression."""
    if isinstance(node, ast.List | ast.Tuple):
        parts = [ast.unparse(part) for part in node.elts]
        is_command, arguments = parts[:1] == ["sys.executable"], node.elts[1:]
    elif isinstance(node, ast.Call):
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        command, values = named.get("command"), named.get("args")
        is_command = command is not None and ast.unparse(command) == "sys.executable"
        arguments = values.elts if isinstance(values, ast.List | ast.Tuple) else []
    else:
        return None
    return [ast.unparse(one).strip("'") for one in arguments] if is_command else None


def test_helper_programs_are_looked_up_in_absolute_folders_only() -> None:
    callers = {
        module_name(path)
        for path in module_paths()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "shutil.which"
    }
    # These filter PATH themselves, because they look up the programs of servers.
    assert callers == {
        "mcphost.paths", "mcphost.transport.process", "mcphost.diagnosis.program_steps",
        "mcphost.host.servers.command_risks",
    }  # fmt: skip
