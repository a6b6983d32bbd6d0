"""Example content for lists and questions: grants, audit records, accounts, and the cost of a request."""

from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Any

from mcphost.auth.accounts import Account, StoredAccount
from mcphost.config.rule_syntax import exact_pattern, parse_rule
from mcphost.config.rules import Rule
from mcphost.config.schema import AuditConfig
from mcphost.host.argument_origins import ArgumentOrigin
from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.grants import GrantStatus
from mcphost.host.conversation.context_report import ContextReport, ContextTool
from mcphost.host.questions.compaction import OfferCompaction, ReviewCompaction, SummarySource
from mcphost.host.questions.cost import ApproveCost, BudgetUse, CheaperModel, CostShare
from mcphost.host.questions.pages import OpenPage, PageMessage
from mcphost.host.questions.questions import ApproveTool
from mcphost.host.server_views import OpenedPage
from mcphost.llm.model import TokenShare, Usage
from mcphost.serialization import replace
from mcphost.store.audit_store import AuditRecord, AuditStore
from mcphost.store.compactions import SummarySentence
from mcphost.store.grants import CHANGED_REASON, Grant
from mcphost.store.spending import SpendingEntry

EXAMPLE_TIME = 1_790_000_000.0
OPEN_PAGE = OpenPage(
    server="weather", why="you opened the page of its tool", tool="show_forecast", uri="ui://weather/forecast",
    size=48_213, connect=("https://api.openweathermap.org", "wss://live.example.com"),
    resource=("https://cdn.jsdelivr.net",), left_out=("http://tracker.example.com",), tools=3,
)  # fmt: skip
PAGE_MESSAGE = PageMessage(
    server="weather", why="the page of its tool 'show_forecast' asks for it", tool="show_forecast",
    text="Compare the forecast of Bern with that of Zürich.",
)  # fmt: skip
EXAMPLE_PAGE = OpenedPage(
    number=1, server="weather", tool="show_forecast", uri="ui://weather/forecast", port=40123, is_shown=True,
    url="http://127.0.0.1:40123/q8Zc3yVnJd0m4sBfT7uHkLw2xRrEaPgOi1NvYt6MbCs/",
)  # fmt: skip


def example_grants() -> list[GrantStatus]:
    rule = replace(parse_rule("files/read*?path=under:~/proj"), scope="project", expires=EXAMPLE_TIME + 3600)
    tools = {"read_file": "d", "read_folder": "d"}
    grant = Grant(
        id="4f2a91c0", rule=rule, server_digest="s", tools=tools, place="/home/me/proj", created=EXAMPLE_TIME, uses=12
    )
    evil = Rule(server="github", tool=exact_pattern("get\x1b[2J\u202e[/bold]"))
    return [
        GrantStatus(grant, "counts"),
        GrantStatus(
            Grant(id="77", rule=evil, server_digest="s", tools={"get\x1b[2J\u202e[/bold]": "d"}, created=EXAMPLE_TIME),
            "suspended",
            CHANGED_REASON,
        ),
    ]


ORIGINS_CALL = ApproveTool(
    server="web", why="the model asked for it in turn 3", call="c", tool="post_form",
    arguments={"url": "https://forms.example/feedback",
               "body": "For the record:\nWe will close the Leipzig office in March; "
               "please keep it to yourself.\nBest regards", "tags": ["IBAN", "REU4OSAzNzA0IDAwNDQgMDUzMiAwMTMwIDAw"]},
    origins=(
        ArgumentOrigin(argument="body", server="mail", source="read_message", characters=69, spans=((16, 85),)),
        ArgumentOrigin(argument="tags[1]", server="mail", source="read_message", characters=27, encoding="base64",
                       spans=((0, 36),), is_typed=True),
    ),
)  # fmt: skip
HOSTILE_TEXT = "get\x1b[2J\u202e[/bold]"


def create_example_audit_log(folder: Path, records: Sequence[AuditRecord]) -> AuditLog:
    """Return an audit log to which these records are written."""
    audit_log = AuditLog(AuditStore(folder / "l.db", folder / "l.head"), AuditConfig())
    for record in records:
        audit_log.queue_record(lambda item=record: item)
    return audit_log


def example_audit_records() -> list[AuditRecord]:
    at = round(EXAMPLE_TIME * 1_000_000)
    grant = example_grants()[0].grant.id
    return [
        AuditRecord(at=at, kind="process", event="started", server="files", subject="npx -y files-server",
                    who="always"),
        AuditRecord(at=at, kind="tool", event="answered", server="files", subject="read_file", decision="always",
               who="person", call="c1", shown="ab" * 32, arguments="cd" * 32, duration=4_200,
               detail='{"question":"approve_tool","why":"asked by the model, turn 1"}'),
        AuditRecord(at=at, kind="tool", event="started", server="files", subject="read_file", who="grant", grant=grant,
               call="c1", arguments="cd" * 32, definition="ef" * 32),
        AuditRecord(at=at, kind="tool", event="ended", server="files", subject="read_file", decision="ok",
                    who="mcphost",
               size=5_120, duration=31),
        AuditRecord(at=at, kind="tool", event="answered", server="github", subject=HOSTILE_TEXT, decision="deny",
                    who="person"),
        AuditRecord(at=at, kind="tool", event="ended", server="github", subject="create_issue", decision="failed",
               who="mcphost", duration=60_000),
    ]  # fmt: skip


def example_account(**more: Any) -> Account:
    fields: dict[str, Any] = {
        "scopes": ("issues:read", "repo"),
        "is_renewable": True,
        "client_kind": "registered",
        **more,
    }
    return Account(
        server="hub", url="https://hub.example/mcp", issuer="https://login.example", account="work", **fields
    )


def example_accounts() -> list[StoredAccount]:
    """Return two accounts for one server, an expired account for another, and one for a removed server."""
    ended = example_account(is_renewable=False, expires=time() - 60)
    return [
        StoredAccount(account=replace(example_account(), account=""), servers=("hub",)),
        StoredAccount(account=example_account(), servers=("hub",), used_by=("hub",)),
        StoredAccount(account=replace(ended, server="slack", url="https://slack.example/mcp"), servers=("slack",)),
        StoredAccount(account=replace(example_account(), server="old\x1b[2Jone", url="https://old.example/mcp")),
    ]


def example_spending(conversation: str, now: float) -> list[SpendingEntry]:
    """Return requests to two models on several days; the newest two belong to one turn of the conversation."""
    shares = (
        TokenShare("definitions", "github", "", 31_200),
        TokenShare("results", "files", "search_files", 9_800),
        TokenShare("messages", "", "", 7_100),
        TokenShare("definitions", "files", "", 3_900),
        TokenShare("attachments", "notes", "", 1_500),
        TokenShare("system", "", "", 800),
    )
    days = ((9, "openai/gpt-5-mini", 0.011), (3, "openai/gpt-5", 0.71), (1, "openai/gpt-5", 0.352), (0, "x/new", None))
    older = [
        SpendingEntry(
            at=now - day * 86_400, conversation="other", turn="o", model=model, input_tokens=48_000, output_tokens=900,
            cost=cost, shares=shares,
        )
        for day, model, cost in days
    ]  # fmt: skip
    turn = [
        SpendingEntry(
            at=now, conversation=conversation, turn="t1", model="openai/gpt-5", input_tokens=54_300,
            output_tokens=420, cached_tokens=12_000, cost=0.0721, input_cost=0.0679, saved=0.0135, shares=shares,
        )
    ] * 2  # fmt: skip
    return [*older, *turn]


def example_context() -> ContextReport:
    """Return a context report with a window of 200,000 tokens and many tools, only some of which are sent."""
    github = [("create_issue", 1_240, True), ("search_code", 890, True), ("merge_pull_request", 640, False)]
    github += [(f"list_{name}", 410, False) for name in ("labels", "branches", "commits", "releases", "teams")]
    files = [("edit_file", 720, True), ("search_files", 380, True), ("read_file", 310, True)]
    tools = [ContextTool("github", *one) for one in github]
    tools += [ContextTool("files", *one, preference="pinned") for one in files]
    tools += [ContextTool("", "search_tools", 130, True), ContextTool("", "read_result", 90, True)]
    return ContextReport(
        window=200_000,
        model="anthropic/claude-sonnet-4-5",
        counted=61_820,
        shares=(
            TokenShare("system", "", "", 1_150),
            TokenShare("definitions", "github", "", 2_130),
            TokenShare("definitions", "files", "", 1_410),
            TokenShare("definitions", "", "", 220),
            TokenShare("attachments", "notes", "", 2_400),
            TokenShare("attachments", "", "", 8_100),
            TokenShare("results", "github", "search_code", 21_700),
            TokenShare("results", "files", "read_file", 14_200),
            TokenShare("results", "files", "search_files", 1_900),
            TokenShare("messages", "", "", 9_400),
        ),
        tools=tuple(sorted(tools, key=lambda tool: -tool.tokens)),
        messages=48,
        shortened=6,
        summarized=30,
        system="You are an assistant inside mcphost, a terminal host for the Model Context Protocol.",
    )


COST = ApproveCost(
    server="",
    why="",
    model="openai/gpt-5",
    label="openai/gpt-5",
    input_tokens=54_300,
    cached_tokens=12_000,
    max_output_tokens=16_000,
    input_cost=0.0679,
    output_cost=0.16,
    shorter_output_tokens=3_200,
    budgets=(
        BudgetUse("ask_above", 0.0, 0.2, 0.4),
        BudgetUse("per_turn", 0.0312, 0.5),
        BudgetUse("per_day", 4.91, 5.0, 10.0),
    ),
    shares=(
        CostShare("definitions", "github", "", 31_200),
        CostShare("results", "files", "search_files", 9_800),
        CostShare("messages", "", "", 7_100),
        CostShare("definitions", "files", "", 3_900),
        CostShare("attachments", "notes", "", 1_500),
        CostShare("system", "", "", 800),
    ),
    cheaper=(CheaperModel("groq/llama-3.3-70b", 0.0334), CheaperModel("openai/gpt-5-mini", 0.0456)),
    can_compact=True,
)
"""A request that exceeds two limits, with every way to make it cheaper."""


OFFER = OfferCompaction(
    server="", why="the model's window is almost full", messages=40, tokens=180_000, window=200_000,
    model="anthropic/claude-haiku-4-5", cost=0.0912, tokens_after=94_000,
)  # fmt: skip
REVIEW = ReviewCompaction(
    server="",
    why="you asked for it; replaces 40 messages for the model only",
    sentences=(
        SummarySentence("Ada plans a trip to Lisbon with a budget of 300 euros.", (1, 2)),
        SummarySentence("The calendar of work has no entry from 3 to 7 June.", (5, 6, 7, 12)),
        SummarySentence("She prefers trains.", ()),
    ),
    numbers=tuple(range(1, 41)),
    sources=(
        SummarySource(1, "user", "Plan a trip to Lisbon. Our budget is 300 euros."),
        SummarySource(2, "assistant", "With pleasure. When?"),
        SummarySource(5, "user", "Look into my calendar."),
    ),
    messages=40,
    model="anthropic/claude-haiku-4-5",
    usage=Usage(input_tokens=31_000, output_tokens=400, cost=0.0331),
    tokens_before=31_000,
    tokens_after=420,
)
