"""One `mcphost pipe` per server that answers questions as they come, and one-shot commands beside it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.flows.program import Pipe, Program

SERVER = "peer"
# The reference server asks for roots by itself, a third of a second after the handshake.
STANDING = {"share_roots": "session"}


class Survey:
    """Commands on a pipe; questions that come meanwhile get the prepared answers, by their kind."""

    def __init__(self, program: Program, pipe: Pipe, config: str) -> None:
        self.program = program
        self.pipe = pipe
        self.config = config
        self.questions: list[dict[str, Any]] = []

    def do(self, do: str, answers: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """A command's result; a question with no answer prepared fails the test."""
        self.questions = []
        ident = self.pipe.send(do, server=SERVER, **fields)
        while event := self.pipe.read():
            if event["event"] == "question":
                self.questions.append(event)
                self.pipe.send(
                    "answer", question=event["question"], answer={**STANDING, **(answers or {})}[event["kind"]]
                )
            elif event["event"] == "result" and event["id"] == ident:
                return event
        raise AssertionError(f"the output ended before the result of {do} {fields}")

    def call(self, tool: str, answers: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        """What came of a tool that works."""
        result = self.do("call", answers, tool=tool, arguments=arguments)
        assert (result["ok"], result["exit"]) == (True, 0), result
        return result["result"]

    def refused(self, tool: str, **arguments: Any) -> str:
        """The text of a tool that ran and reported an error."""
        result = self.do("call", tool=tool, arguments=arguments)
        assert (result["ok"], result["exit"], result["result"]["isError"]) == (True, 8, True), result
        return result["result"]["text"]

    def names(self, kind: str, *, refresh: bool = True) -> list[str]:
        """What is offered of a kind, read anew or as it is known."""
        offered = self.do("list", kind=kind, refresh=refresh)["result"][kind]
        return [one.get("name") or one["uri"] for one in offered]

    def one_shot(self, command: str, *arguments: str, code: int = 0) -> Any:
        """A command of its own, which starts or reaches the server anew; its JSON."""
        flags = ("--mcp-config", self.config, "--json")
        return json.loads(self.program.text(command, *arguments, *flags, code=code))

    def since(self, mark: int) -> list[dict[str, Any]]:
        """The events read after there were `mark` of them."""
        return self.pipe.events[mark:]

    def later(self, mark: int, **wanted: Any) -> dict[str, Any]:
        """The first event with these fields after there were `mark` of them, read already or yet to come."""
        while True:
            for event in self.since(mark):
                if wanted.items() <= event.items():
                    return event
            assert self.pipe.read(), f"the output ended before {wanted}"

    @property
    def mark(self) -> int:
        """How many events were read."""
        return len(self.pipe.events)

    @contextmanager
    def beside(self, *flags: str) -> Iterator["Survey"]:
        """Another pipe with the same server."""
        with self.program.pipe("--mcp-config", self.config, *flags) as pipe:
            yield Survey(self.program, pipe, self.config)


@contextmanager
def surveying(program: Program, entry: dict[str, Any], *flags: str) -> Iterator[Survey]:
    """A pipe with one server, named `peer`, and the demo model."""
    config = program.servers(**{SERVER: entry})
    with program.pipe("--model", "demo", "--mcp-config", config, *flags) as pipe:
        survey = Survey(program, pipe, config)
        ready = survey.do("connect")
        assert ready["ok"], ready
        yield survey
        pipe.end()
