"""A list of attacks on sign-in, with the tests that perform each one; tests/architecture checks the list.

Rows of kind "rule" are general rules of sign-in, "incident" rows describe attacks on other programs, and "rfc9700" rows
come from OAuth's best current practice (RFC 9700), as far as it applies to native public clients.
"""

from typing import NamedTuple

ORIGIN_TESTS = "unit/auth/attacks/test_foreign_origins.py"
LEAK_TESTS = "unit/auth/attacks/test_secret_leaks.py"
FLOW = "unit/auth/test_interactive_sign_in.py"
TIME = "unit/auth/test_token_refresh.py"
CALLBACK = "unit/auth/test_callback_server.py"
BROWSER = "unit/auth/test_browser.py"
DEVICE = "unit/auth/test_device_flow.py"
MACHINES = "unit/auth/test_client_grants.py"
URLS = "unit/auth/test_url_policy.py"
PROXY = "unit/auth/test_oauth_http_proxy.py"
TLS = "unit/auth/test_oauth_http_tls.py"
AGAIN = "unit/host/test_resend.py"
PROGRAM = "flows/test_sign_in.py"
SECRETS = "flows/test_sign_in_secrets.py"
ELSEWHERE = "flows/test_sign_in_issuer_changes.py"
CRASHES = "terminal/test_sign_in_crashes.py"
PAUSE = "unit/auth/test_sign_in_pause.py"
CONCURRENT = "unit/auth/test_concurrent_sign_ins.py"


class AttackRow(NamedTuple):
    """An attack and the tests that perform it; `tests` contains FILE::NAME strings, with paths relative to tests/."""

    kind: str
    description: str
    tests: tuple[str, ...]


ROWS = (
    # -- the common rules
    AttackRow("rule", "one flow at a time a server", (
        f"{TIME}::test_ten_requests_without_a_token_ask_the_user_once",
        f"{TIME}::test_if_the_task_that_signs_in_is_cancelled_the_next_one_takes_over",
    )),
    AttackRow("rule", "five minutes, and all of them", (
        f"{FLOW}::test_an_idle_user_is_waited_for_a_limited_time",
        f"{AGAIN}::test_the_user_has_time_to_sign_in_while_tools_are_listed_again_before_a_call",
        f"{AGAIN}::test_the_user_has_time_to_sign_in_while_a_session_is_reopened",
    )),
    AttackRow("rule", "Escape cancels, and nothing stays open", (
        f"{FLOW}::test_a_cancelled_sign_in_leaves_no_listener_behind",
        f"{PROGRAM}::test_login_can_be_interrupted_and_closes_its_port",
    )),
    AttackRow("rule", "the address is shown in full with its host before it is opened", (
        "screens/test_sign_in.py::test_host_issuer_scopes_and_the_full_url_are_shown",
        "screens/test_sign_in.py::test_only_the_key_for_it_opens_a_browser",
    )),
    AttackRow("rule", "documents of one megabyte in ten seconds", (
        f"{FLOW}::test_metadata_over_a_megabyte_is_not_read",
        f"{FLOW}::test_a_server_that_does_not_answer_is_abandoned",
        f"{ORIGIN_TESTS}::test_a_slow_document_ends_at_the_timeout_and_an_inflating_one_at_a_megabyte",
    )),
    AttackRow("rule", "two authorizations for one action", (
        f"{TIME}::test_a_server_that_refuses_every_fresh_token_is_reported_after_two_sign_ins",
    )),
    AttackRow("rule", "three step-ups", (
        f"{TIME}::test_more_scopes_are_requested_together_with_the_old_ones_a_bounded_number_of_times",
    )),
    AttackRow("rule", "a sign-in that was declined does not come back at once", (
        f"{PAUSE}::test_a_server_that_announces_changes_asks_no_second_time_after_the_user_declined",
    )),
    AttackRow("rule", "a sign-out is not undone by a refresh that an authorization server delays", (
        f"{CONCURRENT}::test_a_sign_out_during_a_refresh_is_not_undone_by_its_tokens",
    )),
    AttackRow("rule", "error text is cleaned and bounded", (
        f"{ORIGIN_TESTS}::test_text_of_a_hostile_authorization_server_is_bounded_and_cleaned_everywhere",
        f"{FLOW}::test_a_denial_shows_the_servers_text_and_can_be_retried",
        f"{DEVICE}::test_a_code_with_hidden_characters_is_shown_with_marks",
        "unit/auth/test_sign_in_errors.py::test_the_names_of_issuers_in_an_error_have_no_control_characters",
        "unit/auth/test_sign_in_errors.py::test_the_scopes_in_an_error_have_no_control_characters",
    )),
    AttackRow("rule", "nothing of an answer decides an origin before the issuer checks", (
        f"{ORIGIN_TESTS}::test_an_authorization_server_that_calls_itself_another_gets_neither_client_nor_code",
        f"{ORIGIN_TESTS}::test_a_mix_up_brings_no_code_to_the_token_endpoint_of_another",
        f"{MACHINES}::test_a_client_assertion_is_not_sent_to_an_authorization_server_that_only_the_server_names",
        f"{DEVICE}::test_a_secret_leaves_by_no_code_for_an_authorization_server_that_only_the_server_names",
    )),
    AttackRow("rule", "no token, code, verifier or state in what is logged, shown, stored or passed on", (
        f"{LEAK_TESTS}::test_every_value_of_sign_in_that_could_hold_a_secret_shows_nothing",
        f"{LEAK_TESTS}::test_the_authorization_code_flow_with_renewal_and_sign_out",
        f"{LEAK_TESTS}::test_a_server_that_repeats_the_secrets",
        f"{LEAK_TESTS}::test_a_secret_cut_off_in_an_error_is_redacted_as_well",
        f"{LEAK_TESTS}::test_the_paste_flow",
        f"{LEAK_TESTS}::test_the_device_flow",
        f"{LEAK_TESTS}::test_every_flow_of_a_machine",
        f"{LEAK_TESTS}::test_a_token_that_is_bound_to_a_key",
        f"{SECRETS}::test_no_secret_of_a_sign_in_leaves_the_program",
    )),
    AttackRow("rule", "no secret in what is shown and written when mcphost itself makes a mistake", (
        f"{CRASHES}::test_on_the_command_line",
        f"{CRASHES}::test_on_the_pipe",
        f"{CRASHES}::test_on_the_screen_while_a_secret_is_typed_and_while_a_code_is_redeemed",
    )),
    AttackRow(
        "rule",
        "no token that would break out of its header",
        (f"{ORIGIN_TESTS}::test_only_asking_again_can_follow_from_a_token_that_is_no_token",),
    ),
    # -- known incidents
    AttackRow("incident", "CVE-2025-6514: an authorization endpoint that reaches a shell", (
        f"{BROWSER}::test_the_url_is_one_argument_and_no_shell_reads_it",
        f"{BROWSER}::test_a_url_that_is_not_https_starts_nothing",
    )),
    AttackRow("incident", "CVE-2025-58444 and its class: javascript: and other schemes", (
        f"{FLOW}::test_an_endpoint_that_is_no_safe_address_stops_the_sign_in",
        f"{DEVICE}::test_device_flow_errors_name_their_reason",
    )),
    AttackRow("incident", "CVE-2025-49596: a local port that any web page can talk to", (
        f"{CALLBACK}::test_the_port_is_closed_after_the_sign_in_and_never_open_to_the_network",
        f"{CALLBACK}::test_another_host_name_is_another_site",
        f"{CALLBACK}::test_a_foreign_response_is_rejected_and_the_wait_continues",
        f"{ORIGIN_TESTS}::test_a_code_that_another_server_or_page_brings_is_not_redeemed",
    )),
    AttackRow("incident", "SSRF through resource_metadata", (
        f"{ORIGIN_TESTS}::test_metadata_on_another_origin_named_by_a_challenge_is_not_fetched",
        f"{ORIGIN_TESTS}::test_a_challenge_cannot_redirect_discovery_beyond_this_servers_metadata",
        f"{ORIGIN_TESTS}::test_metadata_redirects_to_another_origin_are_not_followed",
    )),
    AttackRow("incident", "SSRF through issuers, endpoints and names that lead into private networks", (
        f"{FLOW}::test_an_issuer_where_the_server_does_not_live_is_not_asked",
        f"{URLS}::test_a_public_server_cannot_point_into_a_private_network",
        f"{URLS}::test_a_name_that_also_resolves_to_loopback_may_not_point_to_loopback",
        f"{PROXY}::test_a_proxy_is_not_asked_for_private_addresses",
        f"{TLS}::test_the_certificate_is_checked_for_the_name_while_the_judged_address_is_used",
    )),
    AttackRow("incident", "mix-up through metadata: the code to the attacker's token endpoint", (
        f"{ORIGIN_TESTS}::test_a_mix_up_brings_no_code_to_the_token_endpoint_of_another",
    )),
    AttackRow("incident", "CVE-2026-25536: what belongs to one user or server goes to another", (
        f"{ORIGIN_TESTS}::test_two_servers_of_one_authorization_server_each_see_only_their_own_token",
        f"{ORIGIN_TESTS}::test_a_server_that_claims_to_be_another_gets_no_token_of_that",
        f"{ORIGIN_TESTS}::test_a_resource_that_hides_the_name_of_another_server_is_refused",
        f"{TIME}::test_two_accounts_of_one_server_are_two_sign_ins",
        f"{ELSEWHERE}::test_a_server_that_moved_to_another_authorization_server_is_signed_in_to_again_there",
    )),
    AttackRow("incident", "CVE-2026-21852: a token to an address that a project chose", (
        f"{ORIGIN_TESTS}::test_a_url_chosen_by_a_project_gets_no_token_of_another_server",
        f"{TIME}::test_a_server_of_the_same_name_at_another_address_gets_nothing",
    )),
    AttackRow("incident", "redirects that carry credentials away", (
        f"{ORIGIN_TESTS}::test_a_server_that_redirects_its_requests_gets_no_token_there",
        f"{ORIGIN_TESTS}::test_a_post_with_a_secret_is_never_redirected",
        f"{ORIGIN_TESTS}::test_neither_renewal_nor_revocation_is_redirected",
    )),
    AttackRow("incident", "parallel renewals that revoke the family", (
        f"{TIME}::test_ten_requests_that_meet_an_ended_token_renew_it_once",
        f"{TIME}::test_processes_that_renew_at_once_do_not_lose_the_family",
    )),
    AttackRow("incident", "the loser of a race deletes the winner's token", (
        f"{TIME}::test_a_sign_in_stored_by_another_process_meanwhile_is_never_deleted",
    )),
    AttackRow("incident", "no keyring: a fresh token lost, or kept in the open without a word", (
        f"{TIME}::test_a_failing_secret_store_is_reported_and_the_next_start_signs_in_again",
        "unit/auth/test_keyring_backend.py::test_a_back_end_that_keeps_plain_text_is_not_used",
    )),
    AttackRow("incident", "a fresh token lost between the flow and the store", (
        f"{TIME}::test_a_cancelled_refresh_still_stores_its_tokens",
        "unit/auth/test_secret_store.py::test_an_answer_right_before_quitting_still_counts",
    )),
    AttackRow("incident", "reconnect storms with 401", (
        f"{ORIGIN_TESTS}::test_a_server_that_always_needs_more_input_is_answered_a_few_times_and_not_forever",
        f"{MACHINES}::test_a_client_grant_whose_fresh_token_is_refused_is_not_repeated_forever",
    )),
    AttackRow("incident", "rug pull: a tool that changes while a person signs in", (
        f"{AGAIN}::test_a_call_is_not_repeated_for_a_tool_that_changed_meanwhile",
        f"{AGAIN}::test_a_model_call_is_asked_about_again_with_the_current_definition",
    )),
    # -- RFC 9700
    AttackRow("rfc9700", "PKCE with S256, always, or no sign-in (2.1.1)", (
        "unit/auth/test_discovery_and_tokens.py::test_a_server_without_s256_is_refused_unless_its_metadata_cannot_tell",
        f"{FLOW}::test_metadata_of_an_issuer_that_is_another_or_too_weak_is_not_used",
    )),
    AttackRow("rfc9700", "a redirect address on a loopback address with a port of its own (4.1.3)", (
        f"{FLOW}::test_a_401_starts_a_sign_in_and_repeats_the_request",
        f"{CALLBACK}::test_the_port_is_closed_after_the_sign_in_and_never_open_to_the_network",
    )),
    AttackRow("rfc9700", "a state that works once, for this attempt only (4.7)", (
        f"{CALLBACK}::test_only_one_answer_is_accepted_and_only_by_get",
        f"{ORIGIN_TESTS}::test_a_code_that_another_server_or_page_brings_is_not_redeemed",
    )),
    AttackRow("rfc9700", "the issuer of an answer (4.4, RFC 9207)", (
        f"{FLOW}::test_an_answer_of_another_issuer_is_never_redeemed",
        f"{FLOW}::test_an_issuer_that_promises_its_name_must_give_it",
        f"{FLOW}::test_the_error_of_another_issuer_is_not_shown",
        f"{ELSEWHERE}::test_a_response_from_another_issuer_ends_login_and_its_code_is_never_sent",
    )),
    AttackRow("rfc9700", "no implicit grant and no password grant (2.1.2, 2.4)", (
        f"{FLOW}::test_registration_is_for_a_native_app_that_refreshes_tokens",
    )),
    AttackRow("rfc9700", "tokens for one audience (2.3)", (
        f"{ORIGIN_TESTS}::test_two_servers_of_one_authorization_server_each_see_only_their_own_token",
        f"{ORIGIN_TESTS}::test_a_client_key_signs_only_for_the_configured_issuer",
    )),
    AttackRow("rfc9700", "rotation of refresh tokens (4.14)", (
        f"{TIME}::test_a_token_that_ended_is_renewed_before_it_is_sent_and_the_new_refresh_token_is_kept",
    )),
    AttackRow("rfc9700", "token requests are never redirected (4.12)", (
        f"{ORIGIN_TESTS}::test_a_post_with_a_secret_is_never_redirected",
    )),
    AttackRow("rfc9700", "tokens are in no address (4.3.2)", (f"{FLOW}::test_no_token_is_ever_in_an_address",)),
    AttackRow("rfc9700", "tokens that are bound to a key (2.2.1)", (
        f"{MACHINES}::test_a_bound_token_travels_with_a_fresh_proof_and_the_nonce_of_each_server",
    )),
)  # fmt: skip
