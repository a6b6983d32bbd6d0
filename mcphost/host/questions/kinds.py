"""Names of the kinds of questions that a frontend can ask.

They are defined separately, because frontends declare their kinds at startup, whereas the question classes are
imported only when the first question is asked.
"""

APPROVE_COST = "approve_cost"
APPROVE_TOOL = "approve_tool"
CONTINUE_TURN = "continue_turn"
ENTER_CLIENT = "enter_client"
FILL_FORM = "fill_form"
KEEP_SECRETS = "keep_secrets"
OFFER_COMPACTION = "offer_compaction"
OPEN_PAGE = "open_page"
PAGE_MESSAGE = "page_message"
RETRY_CALL = "retry_call"
REVIEW_COMPACTION = "review_compaction"
REVIEW_REPLY = "review_reply"
REVIEW_RESULT = "review_result"
REVIEW_SAMPLING = "review_sampling"
SHARE_ROOTS = "share_roots"
SIGN_IN = "sign_in"
TOOLS_CHANGED = "tools_changed"
TRUST_PROJECT = "trust_project"
TRUST_SERVER = "trust_server"
UNLOCK_SECRETS = "unlock_secrets"
VISIT_URL = "visit_url"

ASKED_DURING_TURNS = frozenset(
    {
        APPROVE_COST, CONTINUE_TURN, ENTER_CLIENT, FILL_FORM, RETRY_CALL, REVIEW_REPLY, REVIEW_SAMPLING, SHARE_ROOTS,
        SIGN_IN, VISIT_URL,
    }
)  # fmt: skip
"""The kinds that a turn or one of its running calls usually waits for, other than those about a single call."""
