"""Use all features of a server through `mcphost pipe` with prepared answers, and through separate commands."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.flows.program import PipeClient, Program

SERVER = "peer"
# The reference server requests roots on its own, a third of a second after the handshake.
DEFAULT_ANSWERS = {"share_roots": "session"}


class PipeSurvey:
    """Commands sent through one pipe; each question gets the answer prepared for its kind."""

    def __init__(self, program: Program, pipe: PipeClient, config: str) -> None:
        self.program = program
        self.pipe = pipe
        self.config = config
        self.questions: list[dict[str, Any]] = []

    def run(self, do: str, answers: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """Run a command and return its result; a question without a prepared answer raises KeyError."""
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
        """Call a tool, which must succeed, and return its result."""
        result = self.run("call", answers, tool=tool, arguments=arguments)
        assert (result["ok"], result["exit"]) == (True, 0), result
        return result["result"]

    def call_failing(self, tool: str, **arguments: Any) -> str:
        """Call a tool, which must report an error, and return the text of its result."""
        result = self.run("call", tool=tool, arguments=arguments)
        assert (result["ok"], result["exit"], result["result"]["isError"]) == (True, 8, True), result
        return result["result"]["text"]

    def list_names(self, kind: str, *, refresh: bool = True) -> list[str]:
        """Return the names of the server's features of one kind; without *refresh*, a cached list may be used."""
        offered = self.run("list", kind=kind, refresh=refresh)["result"][kind]
        return [item.get("name") or item["uri"] for item in offered]

    def run_command(self, command: str, *arguments: str, code: int = 0) -> Any:
        """Run a separate command, which connects to the server itself, and return its JSON output."""
        flags = ("--mcp-config", self.config, "--json")
        return json.loads(self.program.text(command, *arguments, *flags, code=code))

    def events_since(self, mark: int) -> list[dict[str, Any]]:
        """Return the events that were read after the first *mark* ones."""
        return self.pipe.events[mark:]

    def wait_for_event(self, mark: int, **expected: Any) -> dict[str, Any]:
        """Return the first event after the first *mark* ones that has these fields, waiting for it if necessary."""
        while True:
            for event in self.events_since(mark):
                if expected.items() <= event.items():
                    return event
            assert self.pipe.read(), f"the output ended before {expected}"

    @property
    def mark(self) -> int:
        """The number of events read so far."""
        return len(self.pipe.events)

    @contextmanager
    def second_pipe(self, *flags: str) -> Iterator["PipeSurvey"]:
        """Open a second pipe with the same server configuration."""
        with self.program.pipe("--mcp-config", self.config, *flags) as pipe:
            yield PipeSurvey(self.program, pipe, self.config)


@contextmanager
def open_survey(program: Program, entry: dict[str, Any], *flags: str) -> Iterator[PipeSurvey]:
    """Open a pipe with the demo model and the given server, named `peer`, and connect to the server."""
    config = program.servers(**{SERVER: entry})
    with program.pipe("--model", "demo", "--mcp-config", config, *flags) as pipe:
        survey = PipeSurvey(program, pipe, config)
        ready = survey.run("connect")
        assert ready["ok"], ready
        yield survey
        pipe.end()
