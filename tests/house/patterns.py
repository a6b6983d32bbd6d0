"""Every regular expression of the package, found in its syntax trees, and inputs that make a backtracking matcher slow.

Run as a program it reads nothing and prints one JSON line for each pattern: `{"begun": name}` before it is tried, and
`{"slow": …}` for an input whose cost grows faster than its length. The caller sets limits, because a pattern that is
exponential never ends.
"""

import ast
import importlib
import itertools
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.house.tree import module_name, parse, sources

FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
LIBRARIES = ("regex", "re2", "sre_compile")
METHODS = FUNCTIONS - {"compile"}
_FLAGS_AT = {"compile": 1, "sub": 4, "subn": 4, "split": 3}
_PARSER: Any = importlib.import_module("re._parser")

SCREENED = 1_000
"""Characters of the input that every pump is tried with."""
SHORT, LONG = 500, 10_000
SUSPECT = 0.0002
"""Seconds for the screened input from which on a pump is measured in earnest."""
GROWTH = 3.0 * LONG / SHORT


@dataclass
class Found:
    """One pattern and the methods it is used with."""

    where: str
    pattern: str | bytes
    flags: int
    methods: set[str] = field(default_factory=set[str])


class Unread(Exception):
    """A pattern that is made while the program runs: the test needs an example of it."""


def found(examples: dict[str, list[str]]) -> list[Found]:
    """Every pattern. `examples` gives those that are made at run time, by `module:line's function`."""
    result: list[Found] = []
    used = _methods_by_name()
    for path in sources():
        tree = parse(path)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _function(node)]
        if not calls:
            continue
        module = importlib.import_module(module_name(path))
        names = _assigned(tree)
        # `split` is a method of texts, too.
        here = {
            node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in METHODS - {"split"}
        }
        for call in calls:
            where = f"{module_name(path)}:{_owner(tree, call)}"
            function = _function(call)
            methods = {function} if function != "compile" else used.get(names.get(id(call), ""), here)
            try:
                pattern = _value(call.args[0], module)
            except Exception as error:
                if where not in examples:
                    raise Unread(f"{where}, line {call.lineno}") from error
                result += [Found(where, one, 0, methods or METHODS) for one in examples[where]]
                continue
            result.append(Found(f"{where}:{call.lineno}", pattern, _flags(call, module), methods or METHODS))
    return result


def other_ways() -> list[str]:
    """Imports by which a pattern could escape: another name of `re`, its functions alone, another library."""
    ways: list[str] = []
    for path in sources():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Import):
                odd = [one for one in node.names if one.name in LIBRARIES or (one.name == "re" and one.asname)]
                ways += [f"{path.name}: {one.name}" for one in odd]
            elif isinstance(node, ast.ImportFrom) and node.module in ("re", *LIBRARIES):
                ways += [f"{path.name}: from {node.module} import {one.name}" for one in node.names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re":
                parent_is_call = node.attr in FUNCTIONS
                if parent_is_call and not _is_called(parse(path), node):
                    ways.append(f"{path.name}: re.{node.attr} is handed on")
    return ways


def _is_called(tree: ast.Module, attribute: ast.Attribute) -> bool:
    return any(isinstance(node, ast.Call) and node.func is attribute for node in ast.walk(tree))


def _function(call: ast.Call) -> str:
    func = call.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "re":
        return func.attr if func.attr in FUNCTIONS else ""
    return ""


def _owner(tree: ast.Module, call: ast.Call) -> str:
    owner = "module"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= call.lineno <= (
            node.end_lineno or 0
        ):
            owner = node.name
    return owner


def _assigned(tree: ast.Module) -> dict[int, str]:
    """By the id of a call node: the name that its pattern is assigned to."""
    names: dict[int, str] = {}
    for node in ast.walk(tree):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if (
            len(targets) == 1
            and isinstance(targets[0], ast.Name)
            and isinstance(getattr(node, "value", None), ast.Call)
        ):
            names[id(node.value)] = targets[0].id
    return names


def _methods_by_name() -> dict[str, set[str]]:
    """The methods of patterns that are called on each name, anywhere: names that several modules use are one here."""
    used: dict[str, set[str]] = {}
    for path in sources():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
                used.setdefault(name, set()).add(node.attr)
    return used


def _value(node: ast.expr, module: Any) -> Any:
    value = eval(compile(ast.Expression(node), "pattern", "eval"), vars(module))
    if not isinstance(value, str | bytes):
        raise TypeError(value)
    return value


def _flags(call: ast.Call, module: Any) -> int:
    at = _FLAGS_AT.get(_function(call), 2)
    given = [word.value for word in call.keywords if word.arg == "flags"] or call.args[at : at + 1]
    return int(eval(compile(ast.Expression(given[0]), "flags", "eval"), vars(module))) if given else 0


# -- inputs
def pumps(pattern: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """Beginnings, pieces to repeat and ends that keep a matcher trying."""
    tree = _PARSER.parse(pattern, flags)
    literals: dict[str, None] = {}
    beginnings = list(dict.fromkeys(["", *_beginnings(tree, "", literals)]))[:80]
    alphabet = list(dict.fromkeys([*list(literals)[:14], *'a0_- ."\n\\=']))
    pieces = [*alphabet, *(a + b for a, b in itertools.permutations(alphabet[:10], 2))]
    ends = ("", "\x00", "\n.", "!")
    yield from (("", piece, end) for piece in pieces for end in ends)
    yield from (
        ("", begin + gap, end) for begin in beginnings if begin for gap in ("", *alphabet[:10]) for end in ends[:2]
    )
    yield from ((begin, piece, end) for begin in beginnings if begin for piece in alphabet[:14] for end in ends[:3])


def _beginnings(tree: Any, before: str, literals: dict[str, None]) -> Iterator[str]:
    """What may stand before each part of a pattern, in examples."""
    for op, value in tree:
        kind = str(op)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, _, body = value
            yield from _beginnings(body, before, literals)
            yield before + _example(body, literals)
            before += _example(body, literals) * min(low, 40)
        elif kind == "SUBPATTERN":
            yield from _beginnings(value[-1], before, literals)
            before += _example(value[-1], literals)
        elif kind == "ATOMIC_GROUP":
            yield from _beginnings(value, before, literals)
            before += _example(value, literals)
        elif kind == "BRANCH":
            for branch in value[1][:12]:
                yield from _beginnings(branch, before, literals)
                yield before + _example(branch, literals)
            before += _example(value[1][0], literals)
        elif kind in ("ASSERT", "ASSERT_NOT"):
            yield from _beginnings(value[1], before, literals)
        else:
            before += _example([(op, value)], literals)
            yield before


def _example(tree: Any, literals: dict[str, None]) -> str:
    """One text that fits a part of a pattern, or nearly."""
    text = ""
    for op, value in tree:
        kind = str(op)
        if kind == "LITERAL":
            literals[chr(value)] = None
            text += chr(value)
        elif kind == "NOT_LITERAL":
            literals[chr(value)] = None
            text += "a" if chr(value) != "a" else "b"
        elif kind == "ANY":
            text += "a"
        elif kind == "IN":
            text += _member(value, literals)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            text += _example(value[2], literals) * min(value[0], 40)
        elif kind == "SUBPATTERN":
            text += _example(value[-1], literals)
        elif kind == "ATOMIC_GROUP":
            text += _example(value, literals)
        elif kind == "BRANCH":
            text += next(_example(branch, literals) for branch in value[1])
    return text


def _member(members: Any, literals: dict[str, None]) -> str:
    negated, chars = False, ""
    for op, value in members:
        kind = str(op)
        negated |= kind == "NEGATE"
        if kind == "LITERAL":
            chars += chr(value)
        elif kind == "RANGE":
            chars += chr(value[0])
        elif kind == "CATEGORY":
            chars += {"CATEGORY_SPACE": " ", "CATEGORY_DIGIT": "0", "CATEGORY_NOT_WORD": "-"}.get(str(value), "a")
    literals.update(dict.fromkeys(chars[:4]))
    if not negated:
        return chars[:1]
    return next(char for char in "ab0 -z\x01" if char not in chars)


# -- measuring
def slow(one: Found) -> str:
    """An input whose cost grows faster than its length, described; empty when none was found."""
    compiled = re.compile(one.pattern, one.flags)
    text = one.pattern if isinstance(one.pattern, str) else one.pattern.decode("latin-1")
    for method in sorted(one.methods):
        run, suspect = _runner(compiled, method), SUSPECT
        for begin, piece, end in pumps(text, one.flags & ~re.ASCII if isinstance(one.pattern, bytes) else one.flags):

            def made(size: int, begin: str = begin, piece: str = piece, end: str = end) -> str | bytes:
                text = begin + piece * (size // len(piece)) + end
                return text if isinstance(one.pattern, str) else text.encode("latin-1", "replace")

            if (cost := _cost(run, made(SCREENED))) <= suspect:
                continue
            suspect = max(suspect, 1.5 * cost)
            if (growth := _growth(run, made)) > GROWTH:
                shown = f"{method} of {begin!r} + {piece!r} * n + {end!r}"
                return f"{shown} costs {growth:.0f} times as much for {LONG // SHORT} times the text"
    return ""


def _growth(run: Callable[[Any], object], made: Callable[[int], str | bytes]) -> float:
    """How many times more the long input costs than the short; measured again where it looks bad."""
    growth = 0.0
    for _ in range(3):
        short = min(_cost(run, made(SHORT)) for _ in range(5))
        growth = min(_cost(run, made(LONG)) for _ in range(2)) / max(short, 20e-6)
        if growth <= GROWTH:
            break
    return growth


def _cost(run: Callable[[Any], object], text: str | bytes) -> float:
    began = time.thread_time()
    run(text)
    return time.thread_time() - began


def _runner(compiled: Any, method: str) -> Callable[[Any], object]:
    empty: Any = b"" if isinstance(compiled.pattern, bytes) else ""
    if method in ("sub", "subn"):
        return lambda text: getattr(compiled, method)(empty, text)
    if method == "finditer":
        return compiled.findall
    return getattr(compiled, method)


def main() -> None:
    if sys.argv[1] == "--pattern":
        everything = [Found("given", sys.argv[2], 0, {"search"})]
    else:
        examples, bounded = json.loads(sys.argv[1]), json.loads(sys.argv[2])
        everything = [one for one in found(examples | bounded) if one.where not in bounded]
    for one in everything:
        print(json.dumps({"begun": one.where}), flush=True)
        if why := slow(one):
            print(json.dumps({"slow": f"{one.where} {one.pattern!r}: {why}"}), flush=True)


if __name__ == "__main__":
    main()
