"""Tests for which modules are loaded when: no UI or model library in the core, nothing heavy at startup."""

import json
import subprocess
import sys
from pathlib import Path

from tests.architecture.source_tree import ROOT, module_name, module_paths

SCREEN_AND_MODELS = (
    "textual",
    "rich",
    "litellm",
    "openai",
    "keyring",
    "pydantic",
    "jsonschema",
    "jsonschema_rs",
    "PIL",
)

# The packages that may import the screen library, and those that may import litellm.
OUTSIDE_THE_CORE = (
    "mcphost.tui",
    "mcphost.cli.chat",
    "mcphost.cli.rich_output",
    "mcphost.cli.chat_web_server",
    "mcphost.llm.litellm_patches",
    "mcphost.llm.worker",
    "mcphost.__main__",
)

# What the first frame must not wait for: libraries, the host and everything below it, dialogs and pages.
HEAVY = {"litellm", "openai", "keyring", "httpx", "pydantic", "jsonschema", "jsonschema_rs", "mcp", "PIL", "anyio",
         "msgspec", "sqlite3", "hashlib", "markdown_it", "pygments", "yaml"}  # fmt: skip
SHELL = {
    "mcphost",
    "mcphost.__main__",
    "mcphost.sanitize",
    "mcphost.cli",
    "mcphost.cli.chat",
    "mcphost.cli.printing",
    "mcphost.cli.colors",
    "mcphost.cli.main",
    "mcphost.cli.parser",
    "mcphost.errors",
    "mcphost.paths",
    "mcphost.pluralize",
    "mcphost.translation",
}
AFTER_THE_FRAME = (
    "mcphost.tui.dialogs",
    "mcphost.tui.forms",
    "mcphost.tui.frontend",
    "mcphost.tui.combining_marks",
    "mcphost.tui.transcript.message_blocks",
    "mcphost.tui.transcript.presenter",
)

# What the host needs only with the first message, question, skill, sampling request, rule, older server, server with
# variables, or view of grants or the audit log.
WITH_THE_FIRST_USE = {
    "anyio.from_thread",
    "httpx",
    "keyring",
    "logging.handlers",
    "mcphost.auth.oauth_registry",
    "mcphost.cli.command_runner",
    "mcphost.cli.printing",
    "mcphost.client.handshake_session",
    "mcphost.client.incoming_requests",
    "mcphost.client.input_required",
    "mcphost.client.parameter_headers",
    "mcphost.client.server_requests_as_tasks",
    "mcphost.client.stateless_session",
    "mcphost.client.task_polling",
    "mcphost.config.approval_text",
    "mcphost.config.hooks",
    "mcphost.config.host_formats",
    "mcphost.config.other_hosts",
    "mcphost.config.remembered_models",
    "mcphost.config.rule_syntax",
    "mcphost.config.secret_masking",
    "mcphost.config.secrets",
    "mcphost.host.argument_origins",
    "mcphost.host.audit.answer_summary",
    "mcphost.host.consent.grants",
    "mcphost.host.consent.policy",
    "mcphost.host.consent.rule_matching",
    "mcphost.host.content_rendering",
    "mcphost.host.conversation.model_request",
    "mcphost.host.conversation.token_estimate",
    "mcphost.host.conversation.tool_selection",
    "mcphost.host.conversation.turn",
    "mcphost.host.questions.compaction",
    "mcphost.host.questions.cost",
    "mcphost.host.questions.form_fields",
    "mcphost.host.questions.forms",
    "mcphost.host.questions.questions",
    "mcphost.host.questions.sign_in",
    "mcphost.host.server_requests.elicitation",
    "mcphost.host.server_requests.sampling",
    "mcphost.host.server_requests.sampling_policy",
    "mcphost.host.servers.accounts",
    "mcphost.host.servers.command_risks",
    "mcphost.host.servers.features",
    "mcphost.host.servers.skills",
    "mcphost.host.setup",
    "mcphost.host.structured_content",
    "mcphost.host.tools",
    "mcphost.llm.chat_completions",
    "mcphost.llm.errors",
    "mcphost.llm.response_limits",
    "mcphost.llm.token_estimate",
    "mcphost.protocol.frontmatter",
    "mcphost.sandbox.image_formats",
    "mcphost.sandbox.images",
    "mcphost.sandbox.process",
    "mcphost.sandbox.schema_validator",
    "mcphost.store.audit_reader",
    "mcphost.store.compactions",
    "mcphost.store.conversation_deletion",
    "mcphost.store.conversations",
    "mcphost.store.manual_calls",
    "mcphost.store.message_search",
    "mcphost.store.search_index",
    "mcphost.store.spending",
    "mcphost.store.system_prompts",
    "mcphost.tui.transcript.markdown",
    "mcphost.tui.transcript.markdown_fragments",
    "mcphost.tui.transcript.markdown_inline",
    "mcphost.tui.transcript.markdown_tables",
    "yaml",
}

IMPORT_ALL_WITHOUT = """
import importlib, json, sys
names, refused = json.load(sys.stdin)
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is refused", name=name)
sys.meta_path.insert(0, Refuse())
failed = {}
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed[name] = str(error)
print(json.dumps(failed))
"""


def run_python(*arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(*arguments: str) -> set[str]:
    """Return the top-level packages in `sys.modules` when a command with these arguments ends."""
    program = (
        "import atexit, sys\n"
        "tops = lambda: {name.partition('.')[0] for name in sys.modules}\n"
        "atexit.register(lambda: print(*tops(), sep='\\n', file=sys.stderr))\n"
        "from mcphost.__main__ import main\n"
        f"sys.argv = {['mcphost', *arguments]!r}\n"
        "raise SystemExit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def core() -> list[str]:
    names = [module_name(path) for path in module_paths()]
    return [name for name in names if not any(name == out or name.startswith(f"{out}.") for out in OUTSIDE_THE_CORE)]


def test_every_module_of_the_core_loads_where_screen_and_model_libraries_are_missing() -> None:
    failed = run_python("-c", IMPORT_ALL_WITHOUT, stdin=json.dumps([core(), SCREEN_AND_MODELS]))
    assert json.loads(failed) == {}


def test_the_demo_server_needs_nothing_but_the_standard_library() -> None:
    names = [name for name in core() if name.startswith("mcphost.demo")]
    assert names
    refused = [*SCREEN_AND_MODELS, "anyio", "httpx", "msgspec", "platformdirs", "markdown_it"]
    assert json.loads(run_python("-c", IMPORT_ALL_WITHOUT, stdin=json.dumps([names, refused]))) == {}


def test_the_version_is_printed_without_loading_http_or_textual() -> None:
    loaded = loaded_by("--version")
    assert loaded.isdisjoint({"httpx", "textual", "rich", "msgspec", "anyio", *SCREEN_AND_MODELS}), loaded


def test_help_is_printed_without_loading_http_or_textual() -> None:
    assert loaded_by("--help").isdisjoint({"httpx", "textual", "rich", *SCREEN_AND_MODELS})


def test_a_table_for_a_file_is_written_without_rich(tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"mcpServers": {"a": {"command": "b"}}}')
    assert "rich" not in loaded_by("servers", "--mcp-config", str(tmp_path / "servers.json"))


def test_nothing_heavy_is_loaded_when_the_first_frame_is_drawn(tmp_path: Path) -> None:
    """Start the real program in a pseudo-terminal with ten servers and a litellm model configured."""
    from tests.architecture import first_frame

    modules = first_frame.modules_at_first_frame(tmp_path)
    loaded = {name.partition(".")[0] for name in modules}
    assert "textual" in loaded, "the spy saw no frame of Textual"
    assert loaded.isdisjoint(HEAVY), loaded & HEAVY
    ours = {name for name in modules if name.partition(".")[0] == "mcphost"}
    strangers = {name for name in ours if not name.startswith("mcphost.tui") and name not in SHELL}
    assert not strangers, f"the first frame waits for {sorted(strangers)}"
    later = {name for name in ours if name.startswith(AFTER_THE_FRAME)}
    assert not later, f"the first frame waits for {sorted(later)}"


def test_the_garbage_of_the_first_frame_is_freed_before_the_host_is_loaded(tmp_path: Path) -> None:
    """Garbage collection is off until the first frame; the objects that remain after it are frozen."""
    program = """
import gc, os, sys, weakref
os.environ["MCPHOST_STATE_DIR"] = sys.argv[1]
from mcphost.cli import chat
from mcphost.cli.parser import Options
class Frame:
    pass
gc.disable()
frame = Frame()
frame.itself = frame
left = weakref.ref(frame)
del frame
freed = []
chat.import_module = lambda name: freed.append(left() is None)
chat._import_host(Options())
print(freed and all(freed), gc.isenabled(), gc.get_freeze_count() > 0)
"""
    assert run_python("-c", program, str(tmp_path)).split() == ["True", "True", "True"]


def test_the_chat_collects_old_garbage_only_in_pauses(tmp_path: Path) -> None:
    program = """
import asyncio, gc, os, sys
for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
    os.environ[f"MCPHOST_{kind}_DIR"] = sys.argv[1]
from mcphost.cli import chat
from mcphost.cli.parser import Options
from mcphost.tui.app import McpHostApp
from mcphost.tui.idle_garbage_collection import MAX_COLLECTIONS
async def run(app):
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    print(gc.get_threshold()[2] == MAX_COLLECTIONS, sum(task.get_name() == "garbage" for task in asyncio.all_tasks()))
McpHostApp.run_async = run
asyncio.run(chat._run_app(Options(), []))
"""
    assert run_python("-c", program, str(tmp_path)).split() == ["True", "1"]


def test_the_host_is_loaded_without_optional_modules() -> None:
    """Each module uses memory for the whole run and delays startup, while the user may already be typing."""
    names = ("mcphost.cli.build_host", "mcphost.tui.frontend", "mcphost.tui.transcript.presenter",
             "mcphost.tui.chat.status", "mcphost.client.connect", "mcphost.transport.stdio",
             "mcphost.llm.litellm_model", "mcphost.host.consent.auto_approve",
             "mcphost.host.conversation.stored_conversations")  # fmt: skip
    program = (
        "import importlib, json, sys\n"
        f"for name in {names!r}:\n    importlib.import_module(name)\n"
        "print(json.dumps([*sys.modules]))"
    )
    loaded = set(json.loads(run_python("-c", program)))
    assert not loaded & WITH_THE_FIRST_USE


def test_the_http_library_is_loaded_without_its_command_line() -> None:
    program = "import sys; from mcphost.auth import oauth_http; oauth_http.load_httpx(); print(*sys.modules)"
    loaded = set(run_python("-c", program).split())
    assert "httpx" in loaded
    assert loaded.isdisjoint({"click", "pygments", "rich"})


def test_a_connected_server_loads_nothing_for_tasks_and_questions() -> None:
    """Few servers run calls as tasks, ask for input or use parameter headers, so these modules are loaded on demand."""
    program = (
        "import json, sys, mcphost.client.stateless_session, mcphost.transport.stdio\nprint(json.dumps([*sys.modules]))"
    )
    loaded = set(json.loads(run_python("-c", program)))
    assert not loaded & (WITH_THE_FIRST_USE - {"mcphost.client.stateless_session"})
