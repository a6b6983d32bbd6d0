"""Update the catalog of translations from the code: `uv run python -m tests.translation.catalog`.

New texts are added without a translation, unused ones are removed, and the compiled file is written next to the
catalog.
"""

import ast
import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from mcphost.translation import SENTENCE
from tests.architecture.source_tree import PACKAGE, module_paths, parse

FOLDER = PACKAGE / "locale" / "zh_CN" / "LC_MESSAGES"
PO_FILE, MO_FILE = FOLDER / "mcphost.po", FOLDER / "mcphost.mo"
# Babel fills these in with the time of the run, with its own version and with placeholders.
_CHANGING_HEADERS = tuple(
    f'"{name}'.encode()
    for name in (
        "POT-Creation",
        "PO-Revision",
        "Report-Msgid",
        "Last-Translator",
        "Language-Team",
        "Project-Id",
        "Generated-By",
    )
)
_ANY_DATE = datetime(2026, 1, 1, tzinfo=UTC)
_HEADER = "# Simplified Chinese translation of mcphost."


class MarkedText(NamedTuple):
    """A text that the code marks for translation; `plural` is empty if the text has no plural form."""

    text: str
    plural: str = ""
    context: str = ""


def find_marked_texts(path: Path) -> Iterator[tuple[MarkedText, int]]:
    """Yield the texts that a module marks for translation, with their line numbers."""
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        match name, [one.value for one in node.args if isinstance(one, ast.Constant)]:
            case (("_" | "N_"), [str(text)]):
                yield MarkedText(text), node.lineno
            case "ngettext", [str(text), str(plural), *_]:
                yield MarkedText(text, plural), node.lineno
            case "pgettext", [str(context), str(text)]:
                yield MarkedText(text, context=context), node.lineno
            case "add_argument", _values:
                for keyword in node.keywords:
                    if keyword.arg == "help" and isinstance(keyword.value, ast.Constant):
                        yield MarkedText(str(keyword.value.value)), node.lineno
            case (("translate_count" | "pluralize"), [*_, str(noun)]):
                yield MarkedText(f"{{number:,}} {noun}", f"{{number:,}} {noun}s"), node.lineno
            case _:
                pass


SENTENCE_PACKAGES = (
    "auth", "cli", "client", "config", "diagnosis", "headless", "host", "llm", "protocol", "registry",
    "http_limits.py", "json_limits.py", "proxies.py", "serialization.py", "sign_in_types.py", "store", "transport",
)  # fmt: skip
"""The packages whose sentences, such as those of errors, are translated as a whole where they are shown."""

FOR_PROGRAMS = {
    "headless/pipe.py",
    "headless/command_members.py",
    "headless/conversation_commands.py",
    "headless/question_answers.py",
}
"""Modules whose errors only programs receive."""

ARGPARSE_SENTENCES = (
    "Unrecognized arguments: {arguments}.",
    "The following arguments are required: {names}.",
    "Argument {name}: {problem}.",
    "Argument {name}: expected one argument.",
    "Argument {name}: expected at least one argument.",
    "Argument {name}: ignored explicit argument {value}.",
    "Argument {name}: not allowed with argument {other}.",
    "Argument {name}: invalid choice: {value} (choose from {choices}).",
    "Argument {name}: {value} is not a number.",
    "Argument {name}: {value} is not a whole number.",
)
"""Errors of argparse as `CommandParser.error` writes them."""

SENTENCE_MODULES = {
    f"{package}/{module}.py".removeprefix("./")
    for package, modules in {
        ".": "http_limits json_limits proxies serialization sign_in_types",
        "auth": "accounts client_grants device_flow discovery file_backend interactive_sign_in keyring_backend "
        "oauth_http oauth_provider secret_store sign_in_context token_store tokens url_policy",
        "client": "connect error_mapping handshake_session pagination requests stateless_session task_polling",
        "config": "certificate_errors code_blocks entry_keys foreign_entries loader mcp_json other_host_entries "
        "other_host_sign_in other_hosts pasted_servers relative_paths rule_warnings variable_references toml_files "
        "windows_hosts",
        "diagnosis": "explain network_steps program_steps well_known",
        "host": "active_conversation api_keys conversation_messages setup model_selection",
        "host/audit": "audit_log",
        "host/budget": "budget_limits budget_check",
        "host/consent": "auto_approve grants",
        "host/conversation": "attachment_fitting compaction result_shortening turn",
        "host/questions": "compaction sign_in",
        "host/server_requests": "elicitation request_handler sampling_costs",
        "host/servers": "accounts catalog command_risks connection definition_diff import_plan lock_drift "
        "orphaned_tasks planned_digest project_lock registry_installer running_calls server_editor "
        "server_file_editor server_log servers status tool_changes tool_registry",
        "host/tools": "approval_checks argument_names call_executor hooks output_validation tool_outcome",
        "llm": "answer_limits errors litellm_model response_limits worker",
        "registry": "client entries install_guide lookalikes package_digests package_grammar plan plan_inputs",
        "store": "audit_reader audit_store database large_results message_search search_index",
        "transport": "streamable_http http_client legacy_sse multiplexer stdio",
    }.items()
    for module in modules.split()
}
"""Modules all of whose sentences are for people, also where no error or question is made of them at once."""

PHRASE_MODULES = {
    "auth/sign_in_context.py", "host/project_file_approvals.py", "host/consent/auto_approve.py",
    "host/consent/grants.py", "host/conversation/attachment_fitting.py", "host/conversation/compaction.py",
    "host/conversation/local_files.py", "host/conversation/resource_attachments.py", "host/conversation/turn.py",
    "host/questions/form_fields.py", "host/servers/server_approval.py",
    "host/servers/definition_diff.py", "host/servers/tool_changes.py", "llm/model_finder.py",
    "host/server_requests/request_handler.py", "host/server_requests/root_folders.py",
    "host/server_requests/sampling_policy.py",
}  # fmt: skip
"""Modules whose phrases, such as the reason of a question, are for people as well."""

_PYTHON_ERRORS = {
    "ValueError", "TypeError", "RuntimeError", "KeyError", "OSError", "NotImplementedError", "AssertionError",
    "TimeoutError", "LookupError",
}  # fmt: skip
_SHAPE = re.compile(r"[A-Z{].*[.?:]|[a-z].* [a-z{].*\.", re.DOTALL)
_FOR_DEVELOPERS = {
    *_PYTHON_ERRORS,
    "debug",
    "info",
    "warning",
    "exception",
    "execute",
    "compile",
    "search",
    "fullmatch",
}
_ERRORS = re.compile(
    r"\w+(?:Error|Denied|Lost|NotSent|Timeout|Message|Capability|Rounds|Required|Revision|Refused|Mismatch)"
)
_SENTENCE_FIELDS = {"why", "hint", "detail", "note", "reason", "warning", "problem", "danger", "summary", "label"}
_PHRASE = re.compile(r"[a-z]{2,} (?:\{\w+\} )*[a-z]|[A-Z].*[a-z]{2,}.*\{\w+\}.*[.:]")

_FIELDS = re.compile(r"\{\w+\}")
_WORD = re.compile(r"[A-Za-z]{2}")
_SENTENCE_FUNCTIONS = (
    "make_step", "notify", "on_problem", "ConfigWarning", "SettingProblem", "confirm", "confirm_with", "join_sentences",
)  # fmt: skip

VALUES = (
    "Expected {expected}, got {found}",
    "Expected {expected}, got {found} - at {path}",
    "Object missing required field {name}",
    "Object missing required field {name} - at {path}",
    "Object contains unknown field {name}",
    "Object contains unknown field {name} - at {path}",
    "Invalid enum value {value}",
    "Invalid enum value {value} - at {path}",
    "Input data was truncated",
    "JSON is malformed: {reason}",
    "{address} port {port}, {milliseconds} ms",
    "{message} The provider said: {reason}",
    "its entry has a secret, and no keyring can store it",
    "exited with status {code}",
    "exited with status {code}; it last said: {lines}",
    "was ended by {signal}",
    "was ended by {signal}; it last said: {lines}",
    "closed its output",
    "closed its output; it last said: {lines}",
    "closed its input",
    "closed its input; it last said: {lines}",
    "Its error output is in {file}",
    "The tool may have run.",
    "Declined.",
    "you called it",
    "the page of its tool {tool} asks for it",
    "its address is not a text",
    "its address does not begin with ui://",
    "its address is over {limit} characters",
    "its address has invalid characters",
    "{why}; the hook {changed_by} changed its arguments",
    "The hook {hook} declined it: {reason}",
    "The hook {hook} declined it: {reason} Change the arguments or the hook.",
    "The hook {hook} could not be run, so the call was refused: {reason}",
    "The hook {hook} could not be run, so the call was refused: {reason} Correct the hook.",
    "The hook {hook} failed, so the call was refused: {reason}",
    "The hook {hook} failed, so the call was refused: {reason} Correct the hook.",
    "{server} · {tool}: The hook {hook} could not be run: {reason}",
    "{server} · {tool}: The hook {hook} failed: {reason}",
    "{file} cannot be opened: {error}.",
    "hooks are not available here.",
    "it could not be run: {reason}",
    "it failed: {reason}",
    "it exited with status {code}.",
    "it exited with status {code}: {error}.",
    "it did not end within {seconds} s.",
    "it printed more than {size} MB.",
    "it did not print JSON.",
    "it did not print a JSON object.",
    "it answered with the unknown member {name}.",
    "it answered with the member {name} twice.",
    "it answered {decision}: a hook can deny or continue, never allow.",
    "it answered with a reason or note that is not text.",
    "it answered with arguments that cannot be used.",
    "it answered with a result that cannot be used.",
    "it answered with a result of more than {limit} characters.",
    "its arguments are invalid. {problem}",
    "it changes the arguments each time they are edited",
    "no reason given",
    "Not a directory",
    "{server} · {tool}: The hook {hook} changed the arguments",
    "{server} · {tool}: The hook {hook} changed the result that the model gets",
    "{server} · {tool}: The hook {hook} withheld the result: {reason}",
    "{server} · {tool}: The hook {hook} says: {notice}",
    "audit log {path}",
    "conversation store {path}",
    "audit log in memory",
    "conversation store in memory",
    "the tool changed",
    "it expired",
    "sign-in: {account} at {issuer}",
    "GitHub account {name}",
    "domain {name}",
    "GitHub account {name} (claimed by the file, not verified)",
    "domain {name} (claimed by the file, not verified)",
    "every provider",
    "TERM is not set",
    "the entry of {name}",
    "Restore it from version control, or delete it and write it again: mcphost servers lock",
    "It is deprecated.",
    "{count} tokens at most",
    "{error}; the value in use is kept.",
    "The value in use is kept.",
    "It is deprecated. {message}",
    "The answer does not match the schema of --schema. {problem}",
    '{file}: "theme" is {theme}, which is not one of: {names}; {default} is used.',
    "some providers",
    "stored in the keyring",
    "stored in a file that only you can read",
    "stored in an encrypted file",
    "stored only until mcphost quits",
    "you are asked if there is none",
    "the chat asks for another place, and so do commands in a terminal",
    "mcphost, to continue the answer",
    "Background result",
    "User, from the prompt {name} of {server}",
    "Assistant, from the prompt {name} of {server}",
    "{count} in the keyring",
    "{count} in a file that only you can read",
    "{count} in an encrypted file",
    '{file}: server "{name}": {problem}',
    '"{key}" is {kind}, not {expected}.',
    '"{key}" is {kind}, not {expected}. Correct it.',
    "{path} is not used: it was not approved yet. Read it, then: mcphost servers trust .mcp.json",
    "{path} is not used: it changed since it was approved. Read it, then: mcphost servers trust .mcp.json",
    "{revision} (handshake era)",
    "{revision} (stateless era)",
    "Ollama at {address}",
    "LM Studio at {address}",
    "llama.cpp at {address}",
    "vLLM at {address}",
    "OpenAI-compatible server at {address}",
    "at {address}",
    "Connection refused",
    "Connection reset by peer",
    "Name or service not known",
    "Network is unreachable",
    "No route to host",
    "No space left on device",
    "No such file or directory",
    "Permission denied",
    "Temporary failure in name resolution",
    "unknown.",
    "{program} (not installed)",
    "Add it by hand if you trust it: mcphost servers add NAME -- COMMAND; its documentation: {url}",
    "Entry {number} was left out. {message}",
    "The entry {name} was left out. {message}",
    "a number",
    "text in quotes",
    "{suggestion} To send any name, write all arguments as one JSON object.",
    "{suggestion} To send any name, give the arguments as JSON to --args.",
)
MALFORMED = (
    "answer", "answer of a model server", "answer of the PDF reader", "answer of the image scaler",
    "answer of the picture decoder", "answer of the schema checker", "authorization server metadata", "command",
    "content", "content block", "content of sampling message {number}", "document at {url}", "edited answer", "entry",
    "error -32042", "error member", "error of a task", "file", "form", "input_required result", "inputRequests member",
    "JSON-RPC batch", "JSON-RPC message", "line of the model worker", "list", "list of its files", "list of sign-ins",
    "table of models of litellm", "lock file", "manifest", "message", "params object", "params object of {method}",
    "prompt", "protected resource metadata", "registry's metadata", "resource", "resource template", "result",
    "result of {method}", "list of roots", "sampling message {number}", "schema", "sealed content", "skill",
    "stored result", "structured content", "task", "task of {method}", "tool", "tool of the sampling request",
    "toolChoice member", "list of tools of the sampling request", "value", "value of {option}", "{type} block",
)  # fmt: skip
"""Names of data in the errors of `serialization`; each error is a sentence of its own, so no value is taken for one."""
COUNTED = ("minute", "second")
"""Values, and nouns of values with a number, that sentences contain and no call marks."""


def find_sentences(path: Path) -> Iterator[str]:
    """Yield the sentences for users in a module below the UI; values in them are replaced by named fields.

    These are the messages and hints of errors, and the reasons and results in questions and reports.
    """
    for node in ast.walk(parse(path)):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name.endswith("_HINT"):
                yield from _texts_of(value)
                continue
            case ast.Call():
                name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            case _:
                continue
        given = [keyword.value for keyword in node.keywords if keyword.arg in _SENTENCE_FIELDS]
        if name == "Check":
            given += node.args[2:]
        if (_ERRORS.fullmatch(name) and name not in _PYTHON_ERRORS) or name in _SENTENCE_FUNCTIONS:
            given += node.args
        shape = _WORD if path.parent.name in ("cli", "headless") else _PHRASE
        for value in given:
            yield from (
                text for text in _texts_of(value) if shape.search(_FIELDS.sub("", text) if shape is _WORD else text)
            )


def find_all_phrases(path: Path, name: str) -> Iterator[str]:
    """Yield the sentences of a module in `SENTENCE_MODULES`, or the phrases of one in `PHRASE_MODULES`."""
    tree = parse(path)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Compare | ast.arg):
            skipped |= {id(child) for child in ast.walk(node) if child is not node}
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _FOR_DEVELOPERS:
            skipped |= {id(child) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        for text in _texts_of(node):
            if _PHRASE.search(text) and (name in PHRASE_MODULES or _SHAPE.fullmatch(text)):
                yield text


def _texts_of(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.IfExp():
            yield from _texts_of(node.body)
            yield from _texts_of(node.orelse)
        case ast.BoolOp():
            for value in node.values:
                yield from _texts_of(value)
        case ast.Constant(value=str(text)):
            yield text.replace("{", "{{").replace("}", "}}")
        case ast.JoinedStr():
            fields: list[str] = []
            parts = [part.value if isinstance(part, ast.Constant) else "" for part in node.values]
            for at, part in enumerate(node.values):
                if isinstance(part, ast.FormattedValue):
                    fields.append(_name_field(part.value, fields))
                    parts[at] = f"{{{fields[-1]}}}"
                else:
                    parts[at] = str(parts[at]).replace("{", "{{").replace("}", "}}")
            yield "".join(map(str, parts))
        case _:
            pass


def _name_field(value: ast.expr, taken: list[str]) -> str:
    """Return the name of the field for a value: the value's last identifier, with a number if the name is taken."""
    words = [one for one in ast.walk(value) if isinstance(one, ast.Name | ast.Attribute)]
    shown = next((one.attr if isinstance(one, ast.Attribute) else one.id for one in words if one), "value").strip("_")
    name = re.sub(r"\W", "", shown.lower()) or "value"
    return name if name not in taken else f"{name}{len(taken) + 1}"


def extract() -> Catalog:
    """Return a catalog of all marked texts and of the sentences of lower layers, all untranslated."""
    found = Catalog(locale="zh_CN", project="mcphost", charset="utf-8", header_comment=_HEADER, fuzzy=False)
    for path in module_paths():
        for one, _line in find_marked_texts(path):
            name = (one.text, one.plural) if one.plural else one.text
            found.add(name, locations=[(path.relative_to(PACKAGE).as_posix(), 0)], context=one.context or None)
        place = path.relative_to(PACKAGE).as_posix()
        if place.split("/")[0] in SENTENCE_PACKAGES and place not in FOR_PROGRAMS:
            is_read = place in SENTENCE_MODULES | PHRASE_MODULES
            for text in (*find_sentences(path), *(find_all_phrases(path, place) if is_read else ())):
                found.add(text, locations=[(place, 0)], context=SENTENCE)
    malformed = (f"The {name} is not valid: {{reason}}" for name in MALFORMED)
    for value in (*VALUES, *malformed, *ARGPARSE_SENTENCES):
        found.add(value, context=SENTENCE)
    for noun in COUNTED:
        found.add((f"{{number:,}} {noun}", f"{{number:,}} {noun}s"))
    return found


def read() -> Catalog:
    """Return the catalog with translations that is stored in `PO_FILE`."""
    with PO_FILE.open("rb") as file:
        return read_po(file, locale="zh_CN")


def compile_catalog(catalog: Catalog) -> bytes:
    """Return the content of the compiled (.mo) file."""
    catalog.creation_date = catalog.revision_date = _ANY_DATE
    written = io.BytesIO()
    write_mo(written, catalog)
    return written.getvalue()


def write(catalog: Catalog) -> None:
    """Write the catalog to its .po file and its compiled .mo file."""
    written = io.BytesIO()
    # Line numbers would change with every commit.
    write_po(written, catalog, width=120, sort_output=True, include_lineno=False, ignore_obsolete=True)
    lines = written.getvalue().splitlines(keepends=True)
    PO_FILE.write_bytes(b"".join(line for line in lines if not line.startswith(_CHANGING_HEADERS)))
    MO_FILE.write_bytes(compile_catalog(read()))


def main() -> None:
    """Update both files from the code, and print the texts that have no translation yet."""
    catalog = extract()
    known = read()
    for message in catalog:
        old = known.get(message.id, message.context)
        if message.id and old is not None and old.string and not old.fuzzy:
            message.string = old.string
    write(catalog)
    missing = [message for message in catalog if message.id and not (message.string and all(message.string))]
    for message in missing:
        print(repr(message.id))
    print(f"{len(catalog)} texts, {len(missing)} without a translation")


if __name__ == "__main__":
    main()
