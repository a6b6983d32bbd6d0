"""The selection of `pytest -m quick`: folders, and the files in them that are left out."""

from pathlib import PurePath

QUICK_FOLDERS = ("unit", "spec", "architecture")
PROCESS_TESTS = frozenset(
    f"{folder}/test_{name}.py"
    for folder, names in {
        "architecture": (
            "amplification_table ci_run commits flows import_contracts loaded_modules regex_patterns readme"
            " test_modules tracked_files"
        ),
        "spec": "mutations",
        "unit": "external_editor child_watcher log_and_paths processes redact",
        "unit/auth": "browser file_backend secret_store secret_service token_refresh keyring_backend",
        "unit/cli": "output_files",
        "unit/client": (
            "invalid_responses stdio_cancelled_start stdio_negotiation stdio_faults stdio_servers"
            " http_streams keepalive"
        ),
        "unit/demo": "interactive_tools server",
        "unit/host": (
            "accounts ambiguous_arguments big_results clipboard_image consent recheck_before_send reconnecting"
            " repeated_results resend rewinding result_images result_review result_shortening context_report"
            " rule_matching server_tools setup startup_cost startup_wait file_watcher config_changes"
            " server_editor origins_in_consent steering tool_deferral tool_results tool_schemas tool_toggles"
            " running_calls background_calls compaction attachment_fitting hidden_text reused_results change_watcher"
            " argument_origins live_settings calls_of_left_conversations message_log_export app_pages"
            " page_contexts page_limits page_lifecycle stored_pages"
        ),
        "unit/headless": "run_input",
        "unit/llm": "imports local_servers token_estimate",
        "unit/registry": "package_digests",
        "unit/sandbox": "images pdf_reader schema_validator",
        "unit/store": "audit_store audit_verification damaged_columns store",
        "unit/transport": "amplification watchdog stale_processes throttle write_batching",
        "unit/tui": "long_text terminal_notifications",
    }.items()
    for name in names.split()
)
"""Files of these folders that start processes or apps, or compare costs."""

LONG_TESTS = frozenset(
    f"{folder}/test_{name}.py"
    for folder, names in {
        "architecture": (
            "command_hints docstrings_and_links file_sizes names requirements started_programs textual_workers"
            " translated_texts"
        ),
        "spec": "message_schemas reply_schemas",
        "unit": "sanitize unicode_forms",
        "unit/auth": "entered_client_ids hostile_documents interactive_sign_in sign_in_errors",
        "unit/auth/attacks": "foreign_origins secret_leaks",
        "unit/cli": "audit_export rich_output translated_help",
        "unit/client": (
            "http_resumption http_retries http_servers http_sessions http_sign_in lifecycle messages tasks_2025"
            " tasks_extension"
        ),
        "unit/config": "hostile_host_files inputs json_edits lock_file server_restrictions",
        "unit/host": (
            "server_approval audit_log command_risks elicitation export features features_over_http file_index"
            " instructions project_file_approvals project_files roots sampling"
            " base64_runs sampling_bounds sampling_models skills tool_changes tool_fingerprints"
        ),
        "unit/llm": "provider_models response_limits tool_schema_limits",
        "unit/protocol": "base frontmatter",
        "unit/registry": "bundle client",
        "unit/store": "message_search salvage spending stored_conversations",
        "unit/transport": "legacy_sse line_splitter multiplexer tls",
        "unit/tui": "call_view code_highlighting key_table markdown rendering_limits screen_text",
    }.items()
    for name in names.split()
)
"""Files of these folders that take more than a second: the greater part of the time."""


def is_quick(path: PurePath) -> bool:
    """Return whether the tests of a file, named relative to the folder of tests, belong to `-m quick`."""
    return path.parts[0] in QUICK_FOLDERS and path.as_posix() not in PROCESS_TESTS | LONG_TESTS
