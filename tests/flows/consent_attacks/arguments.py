"""Attacks with arguments and with the timing of the user's answers: a call must run exactly as approved."""

from typing import Any

import anyio

from mcphost.config.rule_syntax import parse_rule
from mcphost.host.questions.questions import AllowAlways, AllowOnce, AllowRule, AllowSession, ApproveTool
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.flows.consent_attacks.attack import AttackSetup, SelectiveFrontend, attack, attack_tool


async def propose_calls(
    setup: AttackSetup, frontend: SelectiveFrontend, *uses: dict[str, Any] | None, definition: Any = "t", **more: Any
) -> ScriptedModel:
    """Run a turn in which the model calls the tool `t` once with each of *uses*; return the model."""
    model = ScriptedModel(*(tool_round(("s__t", given)) for given in uses), text_round("ok"))
    async with setup.open_host(model, frontend, setup.stdio_server("s", definition), **more) as host:
        await host.conversation.send("go")
    return model


@attack("Arguments of two megabytes are refused.")
async def huge_arguments(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend()
    await propose_calls(setup, frontend, {"x": "y" * 2_000_000})
    assert [len(question.arguments["x"]) for question in frontend.questions_of(ApproveTool)] == [2_000_000]


@attack("Arguments nested deeper than anybody can show.")
async def deep_arguments(setup: AttackSetup) -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    await propose_calls(setup, SelectiveFrontend(), {"x": deep})


@attack("Arguments that are no JSON, for a tool that was allowed for good.", "tool t")
async def broken_arguments(setup: AttackSetup) -> None:
    await propose_calls(setup, SelectiveFrontend(approve_tool=[AllowAlways()]), {}, None)


@attack("Arguments that do not fit the tool, which was allowed for good.", "tool t")
async def invalid_arguments(setup: AttackSetup) -> None:
    fits = {**attack_tool("t"), "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    await propose_calls(
        setup, SelectiveFrontend(approve_tool=[AllowAlways()]), {"n": 1}, {"n": "1; rm"}, definition=fits
    )


@attack("The user edited the arguments, and those of the model are sent.", "tool t")
async def edited_arguments(setup: AttackSetup) -> None:
    await propose_calls(setup, SelectiveFrontend(approve_tool=[AllowOnce({"n": 2})]), {"n": 1})
    assert [effect["arguments"] for effect in setup.effects() if effect["what"] == "tool"] == [{"n": 2}]


@attack("A yes to a call is used again by the very same call.", "tool t")
async def replayed_approval(setup: AttackSetup) -> None:
    await propose_calls(setup, SelectiveFrontend(approve_tool=[AllowOnce()]), {"n": 1}, {"n": 1}, {"n": 1})


@attack("A rule for numbers below ten, and numbers that are none: text, true, a list, nothing.", "tool t")
async def invalid_numbers(setup: AttackSetup) -> None:
    odd = ("5", True, [5], None, 10, -1e400, {"n": 5})
    frontend = SelectiveFrontend(approve_tool=[AllowRule(parse_rule("s/t?n=<10"))])
    await propose_calls(setup, frontend, {"n": 5}, *({"n": value} for value in odd), {}, {"N": 5}, {"n ": 5})


@attack("A rule for paths below a folder, and paths that lead out of it: dots, links, other spellings.", "tool t")
async def escaping_paths(setup: AttackSetup) -> None:
    inside = setup.folder / "in"
    inside.mkdir()
    (inside / "link").symlink_to(setup.folder)
    ways = (
        f"{inside}/../out",
        f"{inside}/link/out",
        f"{inside}x",
        "../out",
        f"file://{setup.folder}",
        f"{inside}/./../x",
    )
    frontend = SelectiveFrontend(approve_tool=[AllowRule(parse_rule(f"s/t?path=under:{inside}"))])
    await propose_calls(
        setup, frontend, {"path": f"{inside}/ok"}, *({"path": path} for path in ways), {"path": [f"{inside}/ok"]}
    )


@attack("A rule with a pattern, and a text that fits it in its first line only.", "tool t")
async def multiline_against_pattern(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(approve_tool=[AllowRule(parse_rule("s/t?q=re:[a-z]+"))])
    await propose_calls(
        setup, frontend, {"q": "abc"}, {"q": "abc\n"}, {"q": "abc\nrm -rf"}, {"q": "abc;"}, {"q": ["abc"]}
    )


@attack("What is never allowed is allowed for good, and edited into a call that was shown as something else.", "tool t")
async def never_rule_wins(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(approve_tool=[AllowAlways(), AllowOnce({"force": True})])
    await propose_calls(setup, frontend, {"force": False}, {"force": True}, never_rules=(parse_rule("s/t?force=true"),))


@attack("What is never allowed, with its argument spelt in another way that many servers take for the same.")
async def never_rule_with_other_spelling(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(approve_tool=[AllowOnce() for _ in range(4)])
    names = ("Path", "PATH", "pa_th", "\uff50ath")
    await propose_calls(
        setup, frontend, *({name: "/etc/passwd"} for name in names), never_rules=(parse_rule("s/t?path=under:/etc"),)
    )
    assert frontend.asked == []


@attack("The answer of a front to a call is no answer: nothing, true, a word, an answer to something else.")
async def unanswered_call_question(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(approve_tool=[None, True, "once", lambda _: AllowAlways])
    await propose_calls(setup, frontend, *({"n": n} for n in range(4)))
    assert [question.arguments for question in frontend.questions_of(ApproveTool)] == [{"n": n} for n in range(4)]


@attack("The front breaks while it shows the call.")
async def failing_frontend(setup: AttackSetup) -> None:
    def broken(_: Any) -> Any:
        raise ValueError("no screen")

    await propose_calls(setup, SelectiveFrontend(approve_tool=[broken]), {"n": 1})


@attack("Two calls wait side by side: an answer to one, for the session, is no answer to another tool's.", "tool t")
async def simultaneous_answers(setup: AttackSetup) -> None:
    both = anyio.Event()

    async def session(question: ApproveTool) -> Any:
        if len(frontend.asked) == 2:
            both.set()
        await both.wait()
        return AllowSession() if question.tool == "t" else question.refusal()

    frontend = SelectiveFrontend(approve_tool=[session, session])
    model = ScriptedModel(tool_round(("s__t", {}), ("s__wipe", {})), text_round("ok"))
    async with setup.open_host(model, frontend, setup.stdio_server("s", "t", "wipe")) as host:
        await host.conversation.send("go")


@attack("Answers typed ahead: a yes that was there before the question is the yes to the question before.", "tool t")
async def answer_before_question(setup: AttackSetup) -> None:
    frontend = SelectiveFrontend(approve_tool=[AllowOnce()])
    model = ScriptedModel(tool_round(("s__t", {"n": 1}), ("s__t", {"n": 2}), ("s__t", {"n": 3})), text_round("ok"))
    async with setup.open_host(model, frontend, setup.stdio_server("s", "t")) as host:
        await host.conversation.send("go")
    assert len(frontend.asked) == 3
