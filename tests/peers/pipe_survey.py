"""One `mcphost pipe` per server that answers questions as they come, and one-shot commands beside it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.flows.program import PipeClient, Program

SERVER = "peer"
# The reference server asks for roots by itself, a third of a second after the handshake.
DEFAULT_ANSWERS = {"share_roots": "session"}


class PipeSurvey:
    """Commands on a pipe; questions that come meanwhile get the prepared answers, by their kind."""

    def __init__(self, program: Program, pipe: PipeClient, config: str) -> None:
        self.program = program
        self.pipe = pipe
        self.config = config
        self.questions: list[dict[str, Any]] = []

    def run(self, do: str, answers: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """A command's result; a question with no answer prepared fails the test."""
        self.questions = []
        ident = self.pipe.send(do, server=SERVER, **fields)
        while event := self.pipe.read():
            if event["event"] == "question":
                self.questions.append(event)
                self.pipe.send(
                    "answer", question=event["question"], answer={**DEFAULT_ANSWERS, **(answers or {})}[event["kind"]]
                )
            elif event["event"] == "result" and event["id"] == ident:
                return event
        raise AssertionError(f"the output ended before the result of {do} {fields}")

    def call(self, tool: str, answers: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """Return the result of a successful tool call."""
        result = self.run("call", answers, tool=tool, arguments=arguments)
        assert (result["ok"], result["exit"]) == (True, 0), result
        return result["result"]

    def call_failing(self, tool: str, **arguments: Any) -> str:
        """The text of a tool that ran and reported an error."""
        result = self.run("call", tool=tool, arguments=arguments)
        assert (result["ok"], result["exit"], result["result"]["isError"]) == (True, 8, True), result
        return result["result"]["text"]

    def list_names(self, kind: str, *, refresh: bool = True) -> list[str]:
        """What is offered of a kind, read anew or as it is known."""
        offered = self.run("list", kind=kind, refresh=refresh)["result"][kind]
        return [item.get("name") or item["uri"] for item in offered]

    def run_command(self, command: str, *arguments: str, code: int = 0) -> Any:
        """A command of its own, which starts or reaches the server anew; its JSON."""
        flags = ("--mcp-config", self.config, "--json")
        return json.loads(self.program.text(command, *arguments, *flags, code=code))

    def events_since(self, mark: int) -> list[dict[str, Any]]:
        """The events read after there were `mark` of them."""
        return self.pipe.events[mark:]

    def wait_for_event(self, mark: int, **expected: Any) -> dict[str, Any]:
        """The first event with these fields after there were `mark` of them, read already or yet to come."""
        while True:
            for event in self.events_since(mark):
                if expected.items() <= event.items():
                    return event
            assert self.pipe.read(), f"the output ended before {expected}"

    @property
    def mark(self) -> int:
        """How many events were read."""
        return len(self.pipe.events)

    @contextmanager
    def second_pipe(self, *flags: str) -> Iterator["PipeSurvey"]:
        """Another pipe with the same server."""
        with self.program.pipe("--mcp-config", self.config, *flags) as pipe:
            yield PipeSurvey(self.program, pipe, self.config)


@contextmanager
def open_survey(program: Program, entry: dict[str, Any], *flags: str) -> Iterator[PipeSurvey]:
    """A pipe with one server, named `peer`, and the demo model."""
    config = program.servers(**{SERVER: entry})
    with program.pipe("--model", "demo", "--mcp-config", config, *flags) as pipe:
        survey = PipeSurvey(program, pipe, config)
        ready = survey.run("connect")
        assert ready["ok"], ready
        yield survey
        pipe.end()
