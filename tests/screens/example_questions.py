"""One question of each kind; tests of the rules for all questions run with each of them.

A new kind of question needs an example here.
"""

from typing import Any

from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    ApproveTool,
    ContinueTurn,
    RetryCall,
    ShownText,
    TrustProject,
    TrustServer,
)
from mcphost.host.questions.tool_changes import ReviewToolChanges, ToolChange
from tests.screens.example_records import COST, OFFER, OPEN_PAGE, ORIGINS_CALL, PAGE_MESSAGE, REVIEW
from tests.screens.screenshots import (
    ENTER_CLIENT,
    FORM,
    KEEP,
    REPLY,
    RESULT,
    ROOTS,
    ROOTS_EACH,
    SAMPLING,
    SIGN_IN,
    UNLOCK,
    VISIT,
)

CALL = ApproveTool(
    server="github", why="the model asked for it in turn 3", call="c", tool="create_issue", arguments={"repo": "a/b"}
)
CHANGED = ReviewToolChanges(
    server="files", why="a tool changed", changes=(ToolChange(tool="read", digest="1", difference=("- a", "+ b")),)
)
EXAMPLE_QUESTIONS: tuple[Question[Any], ...] = (
    CALL,
    ORIGINS_CALL,
    CHANGED,
    TrustServer(server="files", why="It was never used before.", command=("npx", "-y", "a-server")),
    TrustProject(
        server="",
        why="the model would follow it",
        purpose="instructions",
        texts=(ShownText("/a/AGENTS.md", "Be brief."),),
    ),
    ContinueTurn(server="", why="", rounds=25),
    COST,
    OFFER,
    REVIEW,
    SIGN_IN,
    ENTER_CLIENT,
    KEEP,
    UNLOCK,
    ROOTS,
    ROOTS_EACH,
    SAMPLING,
    REPLY,
    RESULT,
    FORM,
    VISIT,
    OPEN_PAGE,
    PAGE_MESSAGE,
    RetryCall(server="github", why="its tool runs", urls=("https://example.com/in",)),
)
