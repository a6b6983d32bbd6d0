"""Find every regular expression of mcphost, and generate inputs that slow down a matcher with backtracking.

When run as a program, it prints JSON lines: `{"found": number}` for all patterns, `{"begun": name}` before each pattern
is tried, and `{"slow": …}` for an input whose cost grows faster than its length. The first argument is the CPU time in
seconds after which the kernel ends the program, because an exponential pattern would never finish. Several programs can
share the patterns; each tries those of one slice.
"""

import ast
import gc
import importlib
import itertools
import json
import math
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tests.architecture.source_tree import module_name, module_paths, parse

FUNCTIONS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
LIBRARIES = ("regex", "re2", "sre_compile")
METHODS = FUNCTIONS - {"compile"}
_SEARCHING = ("sub", "subn", "findall", "finditer", "split", "search", "match")
"""Methods that try a pattern at places of a text, from the end at every place: each does what those behind it do."""
_FLAGS_AT = {"compile": 1, "sub": 4, "subn": 4, "split": 3}
_PARSER: Any = importlib.import_module("re._parser")

SCREENING_LENGTH = 1_000
"""Characters of the input that every pump is tried with."""
SHORT, LONG = 500, 10_000
SUSPECT_SECONDS = 0.0002
"""Seconds for the screened input from which on a pump is measured in earnest."""
FEW, MANY = 10, 1_000
"""A pattern with at most MANY ways and no repetition of more than FEW is linear: it tries those at each place."""
GROWTH = 3.0 * LONG / SHORT
CERTAIN_GROWTH = 3 * GROWTH
"""No noise of a measurement makes a linear cost grow like this; a quadratic one grows twice as much."""

_Item = TypeVar("_Item")


@dataclass
class RegexPattern:
    """A regular expression, its place in the code, and the methods that are called on it."""

    where: str
    pattern: str | bytes
    flags: int
    methods: set[str] = field(default_factory=set[str])


class DynamicPattern(Exception):
    """Raised for a pattern that is built at run time; the tests must supply an example of it."""


def find_patterns(examples: dict[str, list[str]]) -> list[RegexPattern]:
    """Return every regular expression of mcphost.

    *examples* maps the place of each pattern that is built at run time to examples of it.
    """
    result: list[RegexPattern] = []
    used = _methods_by_name()
    for path in _modules_containing(r"\bre\."):
        nodes = _nodes(path)
        calls = [node for node in nodes if isinstance(node, ast.Call) and _function_name(node)]
        if not calls:
            continue
        module = importlib.import_module(module_name(path))
        names = _assigned_names(nodes)
        # `split` is also a method of str
        here = {node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr in METHODS - {"split"}}
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for call in calls:
            where = f"{module_name(path)}:{_owner_name(functions, call)}"
            function = _function_name(call)
            methods = {function} if function != "compile" else used.get(names.get(id(call), ""), here)
            try:
                pattern = _evaluate(call.args[0], module)
            except Exception as error:
                if where not in examples:
                    raise DynamicPattern(f"{where}, line {call.lineno}") from error
                result += [RegexPattern(where, example, 0, methods or METHODS) for example in examples[where]]
                continue
            result.append(RegexPattern(f"{where}:{call.lineno}", pattern, _flags(call, module), methods or METHODS))
    return result


def take_slice(items: Sequence[_Item], number: int, count: int) -> Sequence[_Item]:
    """Return the items of slice *number* of *count*; each item is in exactly one of the slices 0 to *count* - 1.

    Neighbors are in different slices, because expensive patterns stand together.
    """
    if not 0 <= number < count:
        raise ValueError(number)
    return items[number::count]


def _modules_containing(*parts: str) -> list[Path]:
    """Return the modules whose text matches one of *parts*, so that the others need not be parsed."""
    any_part = re.compile("|".join(parts))
    return [path for path in module_paths() if any_part.search(path.read_text(encoding="utf-8"))]


@cache
def _nodes(path: Path) -> list[ast.AST]:
    """Return all nodes of a module's syntax tree, outer ones first."""
    return list(ast.walk(parse(path)))


def find_indirect_imports() -> list[str]:
    """Return imports that could hide a pattern: `re` under another name, functions of `re`, or other libraries."""
    ways: list[str] = []
    for path in _modules_containing(r"\bre\b", *LIBRARIES):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Import):
                odd = [name for name in node.names if name.name in LIBRARIES or (name.name == "re" and name.asname)]
                ways += [f"{path.name}: {item.name}" for item in odd]
            elif isinstance(node, ast.ImportFrom) and node.module in ("re", *LIBRARIES):
                ways += [f"{path.name}: from {node.module} import {name.name}" for name in node.names]
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re":
                parent_is_call = node.attr in FUNCTIONS
                if parent_is_call and not _is_called(parse(path), node):
                    ways.append(f"{path.name}: re.{node.attr} is handed on")
    return ways


def _is_called(tree: ast.Module, attribute: ast.Attribute) -> bool:
    return any(isinstance(node, ast.Call) and node.func is attribute for node in ast.walk(tree))


def _function_name(call: ast.Call) -> str:
    func = call.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "re":
        return func.attr if func.attr in FUNCTIONS else ""
    return ""


def _owner_name(functions: Sequence[ast.FunctionDef | ast.AsyncFunctionDef], call: ast.Call) -> str:
    around = [node.name for node in functions if node.lineno <= call.lineno <= (node.end_lineno or 0)]
    return around[-1] if around else "module"


def _assigned_names(nodes: Sequence[ast.AST]) -> dict[int, str]:
    """Return the variable to which each call in a module is assigned, by the id of the call's syntax node."""
    names: dict[int, str] = {}
    for node in nodes:
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
    """Return the pattern methods that are called on each variable name; equal names in all modules count as one."""
    used: dict[str, set[str]] = {}
    for path in _modules_containing(rf"\.(?:{'|'.join(METHODS)})\b"):
        for node in _nodes(path):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
                used.setdefault(name, set()).add(node.attr)
    return used


def _evaluate(node: ast.expr, module: Any) -> Any:
    value = eval(compile(ast.Expression(node), "pattern", "eval"), vars(module))
    if not isinstance(value, str | bytes):
        raise TypeError(value)
    return value


def _flags(call: ast.Call, module: Any) -> int:
    at = _FLAGS_AT.get(_function_name(call), 2)
    given = [word.value for word in call.keywords if word.arg == "flags"] or call.args[at : at + 1]
    return int(eval(compile(ast.Expression(given[0]), "flags", "eval"), vars(module))) if given else 0


# -- inputs
def attack_inputs(pattern: str, flags: int) -> Iterator[tuple[str, str, str]]:
    """Yield inputs that may be expensive for a pattern, as a prefix, a piece to repeat, and a suffix."""
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
    """Yield example texts that lead up to each part of a pattern."""
    for op, value in tree:
        kind = str(op)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, _, body = value
            yield from _beginnings(body, before, literals)
            yield before + _matching_text(body, literals)
            before += _matching_text(body, literals) * min(low, 40)
        elif kind == "SUBPATTERN":
            yield from _beginnings(value[-1], before, literals)
            before += _matching_text(value[-1], literals)
        elif kind == "ATOMIC_GROUP":
            yield from _beginnings(value, before, literals)
            before += _matching_text(value, literals)
        elif kind == "BRANCH":
            for branch in value[1][:12]:
                yield from _beginnings(branch, before, literals)
                yield before + _matching_text(branch, literals)
            before += _matching_text(value[1][0], literals)
        elif kind in ("ASSERT", "ASSERT_NOT"):
            yield from _beginnings(value[1], before, literals)
        else:
            before += _matching_text([(op, value)], literals)
            yield before


def _matching_text(tree: Any, literals: dict[str, None]) -> str:
    """Return a text that matches, or nearly matches, a part of a pattern."""
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
            text += _class_member(value, literals)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            text += _matching_text(value[2], literals) * min(value[0], 40)
        elif kind == "SUBPATTERN":
            text += _matching_text(value[-1], literals)
        elif kind == "ATOMIC_GROUP":
            text += _matching_text(value, literals)
        elif kind == "BRANCH":
            text += next(_matching_text(branch, literals) for branch in value[1])
    return text


def _class_member(members: Any, literals: dict[str, None]) -> str:
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


def count_texts(pattern: str, flags: int = 0) -> float:
    """Return how many different texts a pattern can match; characters of the same class count as one."""
    return _count_texts(_PARSER.parse(pattern, flags))


def _count_texts(tree: Any) -> float:
    """Return how many different texts a part of a pattern can match; characters of the same class count as one."""
    product = 1.0
    for op, value in tree:
        kind = str(op)
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            low, high, body = value
            one = _count_texts(body)
            product *= sum(one**times for times in range(low, high + 1)) if high <= FEW else math.inf
        elif kind in ("SUBPATTERN", "ATOMIC_GROUP", "ASSERT", "ASSERT_NOT"):
            product *= _count_texts(value if kind == "ATOMIC_GROUP" else value[-1])
        elif kind == "BRANCH":
            product *= sum(_count_texts(branch) for branch in value[1])
        elif kind not in ("LITERAL", "NOT_LITERAL", "ANY", "IN", "AT"):
            product = math.inf
    return product


# -- measuring
def find_slow_input(pattern: RegexPattern) -> str:
    """Return a description of an input whose cost grows faster than its length, or "" if none is found."""
    compiled = re.compile(pattern.pattern, pattern.flags)
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    flags = pattern.flags & ~re.ASCII if isinstance(pattern.pattern, bytes) else pattern.flags
    if count_texts(text, flags) <= MANY:
        return ""
    for method in distinct_methods(pattern.methods):
        run, suspect = _bind_method(compiled, method), SUSPECT_SECONDS
        for begin, piece, end in attack_inputs(text, flags):

            def made(size: int, begin: str = begin, piece: str = piece, end: str = end) -> str | bytes:
                text = begin + piece * (size // len(piece)) + end
                return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")

            screened = made(SCREENING_LENGTH)
            # Elapsed time is never less than CPU time, and reading it costs a tenth.
            if _measure(run, screened, time.perf_counter) <= suspect or (cost := _measure(run, screened)) <= suspect:
                continue
            suspect = max(suspect, 1.5 * cost)
            if (growth := _growth(run, made)) > GROWTH:
                shown = f"{method} of {begin!r} + {piece!r} * n + {end!r}"
                return f"{shown} costs {growth:.0f} times as much for {LONG // SHORT} times the text"
    return ""


def distinct_methods(methods: set[str]) -> list[str]:
    """Return the methods to test, without those that are never slower than another method in the set."""
    return [*[method for method in _SEARCHING if method in methods][:1], *sorted(methods.difference(_SEARCHING))]


def _growth(run: Callable[[Any], object], made: Callable[[int], str | bytes]) -> float:
    """Return the cost of a long input divided by that of a short one; borderline results are measured again."""
    growth = 0.0
    for _ in range(3):
        short = max(min(_measure(run, made(SHORT)) for _ in range(5)), 20e-6)
        growth = _measure(run, made(LONG)) / short
        if growth <= GROWTH or growth > CERTAIN_GROWTH:
            break
        growth = min(growth, _measure(run, made(LONG)) / short)
        if growth <= GROWTH:
            break
    return growth


def _measure(run: Callable[[Any], object], text: str | bytes, clock: Callable[[], float] = time.thread_time) -> float:
    started_at = clock()
    run(text)
    return clock() - started_at


def _bind_method(compiled: Any, method: str) -> Callable[[Any], object]:
    empty: Any = b"" if isinstance(compiled.pattern, bytes) else ""
    if method in ("sub", "subn"):
        return lambda text: getattr(compiled, method)(empty, text)
    if method == "finditer":
        return compiled.findall
    return getattr(compiled, method)


def main() -> None:
    gc.disable()  # a collection, which visits every imported module, would count as the cost of a pattern
    seconds, *rest = sys.argv[1:]
    if rest[0] == "--pattern":
        everything = [RegexPattern("given", rest[1], 0, {"search"})]
    else:
        examples, bounded = json.loads(rest[0]), json.loads(rest[1])
        everything = [pattern for pattern in find_patterns(examples | bounded) if pattern.where not in bounded]
        print(json.dumps({"found": len(everything)}), flush=True)
        everything = take_slice(everything, int(rest[2]), int(rest[3]))
    for item in everything:
        print(json.dumps({"begun": item.where}), flush=True)
        signal.setitimer(signal.ITIMER_PROF, float(seconds))
        if reason := find_slow_input(item):
            print(json.dumps({"slow": f"{item.where} {item.pattern!r}: {reason}"}), flush=True)


if __name__ == "__main__":
    main()
