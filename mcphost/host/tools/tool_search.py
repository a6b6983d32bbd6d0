"""The built-in tool `search_tools`, which finds tools whose definitions the model has not received."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import anyio.to_thread

from mcphost.host.builtin_tool_names import SEARCH_TOOLS
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.servers.tool_registry import ToolOffer
from mcphost.host.tools.tool_outcome import ToolCallOutcome, make_tool_return
from mcphost.llm.messages import ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Raw, encode

MAX_MATCHES = 10
DEFAULT_MATCHES = 5
MAX_QUERY_CHARS = 500
_INDEXED_CHARS = 1_000
"""Number of characters of each description that are indexed; its purpose is usually stated first."""
_MAX_INDEXED_CHARS = 1_000_000
"""Maximum number of characters indexed of all descriptions together; the more tools, the fewer characters of each."""
_SHOWN_CHARS = 200
_SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": 'What the tool should do, such as "create issue"'},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_MATCHES,
            "description": "Maximum number of tools",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}
_SPEC = ToolSpec(
    SEARCH_TOOLS,
    "Find tools of the connected servers that are not in your list of tools. You can call the tools that are found "
    "from your next message on.",
    Raw(encode(_SCHEMA)),
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af]")
_ENDINGS = ("ings", "ing", "ies", "ed", "es", "s")
_WEIGHTS = (3.0, 2.0, 1.0)  # weights of the names of tool and server, the title, and the description
_SYNONYMS = (
    "create add make new insert write",
    "delete remove drop erase",
    "list get show read fetch find search query",
    "update edit change modify set",
    "send post publish",
    "run execute start",
)
"""Groups of synonyms: verbs that servers use with the same meaning in names and descriptions of tools."""
_SYNONYM_WEIGHT = 0.4
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.5  # k1 and b of BM25


def split_words(text: str) -> Iterator[str]:
    """Yield the words of *text* with common English endings removed.

    For scripts without spaces between words, pairs of characters are yielded instead.
    """
    for word in _WORD.findall(text):
        if _UNSPACED.match(word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
            continue
        lower = word.lower()
        ending = next((end for end in _ENDINGS if lower.endswith(end) and len(lower) - len(end) >= 3), "")
        stem = lower.removesuffix(ending) if ending else lower
        yield stem[:-1] if len(stem) > 3 and stem[-1] in "ey" else stem


class ToolIndex:
    """Search index over the names, titles and descriptions of tools, ranked by BM25."""

    def __init__(self, offers: Sequence[ToolOffer]) -> None:
        self.offers = offers
        length = min(_INDEXED_CHARS, max(_SHOWN_CHARS, _MAX_INDEXED_CHARS // max(1, len(offers))))
        self._counts = [_count_words(offer, length) for offer in offers]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._average = sum(self._lengths) / max(1, len(offers))
        self._frequencies = Counter(word for counts in self._counts for word in counts)

    def search(self, query: str, limit: int) -> list[ToolOffer]:
        """Return at most *limit* tools that share a word with the query, best match first."""
        words = _weigh_words(query)
        scored = [(self._score(at, words), -at) for at in range(len(self.offers))]
        scored.extend((math.inf, -at) for at, offer in enumerate(self.offers) if offer.spec.name in query.split())
        best = sorted((entry for entry in scored if entry[0] > 0), reverse=True)
        return [self.offers[at] for at in list(dict.fromkeys(-entry[1] for entry in best))[:limit]]

    def _score(self, at: int, words: dict[str, float]) -> float:
        counts, total = self._counts[at], len(self.offers)
        norm = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * self._lengths[at] / max(1.0, self._average))
        score = 0.0
        for word, weight in words.items():
            if count := counts.get(word, 0.0):
                seen = self._frequencies[word]
                rarity = math.log(1 + (total - seen + 0.5) / (seen + 0.5))
                score += weight * rarity * count * (_SATURATION + 1) / (count + norm)
        return score


def _weigh_words(query: str) -> dict[str, float]:
    """Return the words of a query and their synonyms, each with a weight, which is lower for synonyms."""
    words = dict.fromkeys(split_words(query), 1.0)
    for line in _SYNONYMS:
        group = set(split_words(line))
        if group & words.keys():
            words = {**dict.fromkeys(group, _SYNONYM_WEIGHT), **words}
    return words


def _count_words(offer: ToolOffer, length: int) -> dict[str, float]:
    counts: dict[str, float] = {}
    fields = (f"{offer.server} {offer.tool}", offer.title, offer.spec.description[:length])
    for text, weight in zip(fields, _WEIGHTS, strict=True):
        for word in split_words(text):
            counts[word] = counts.get(word, 0.0) + weight
    return counts


class ToolSearch:
    """Implementation of the built-in tool `search_tools`.

    It needs no approval, because it only reads definitions that servers have listed. Calling a tool that was found
    needs the usual approval.
    """

    def __init__(self, events: EventBus) -> None:
        self._events = events
        self._offers: Sequence[ToolOffer] = ()
        self._is_searchable = False
        self._index = ToolIndex(())
        self.on_found: Callable[[Iterable[str]], None] = lambda _names: None
        """Receives the model-facing names of the tools that a search returned."""

    def set_deferred(self, offers: Sequence[ToolOffer], *, is_searchable: bool) -> None:
        """Set the tools to search; if *is_searchable* is false, `search_tools` is not offered to the model."""
        self._offers, self._is_searchable = offers, is_searchable

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the definition of `search_tools` if the tool is offered to the model, else ()."""
        return (_SPEC,) if self._is_searchable else ()

    async def run(self, use: ToolUsePart) -> ToolCallOutcome:
        """Run one call proposed by the model. Errors are part of the outcome; only cancellation is raised."""
        args = use.arguments or {}
        query, limit = args.get("query"), args.get("limit", DEFAULT_MATCHES)
        self._events.publish(ToolProposed(use.id, "", SEARCH_TOOLS, use.arguments, use.raw))
        if not isinstance(query, str) or not query.strip() or isinstance(limit, bool) or not isinstance(limit, int):
            text = "query must be text that says what the tool should do, and limit a whole number."
            self._events.publish(ToolFinished(use.id, "", SEARCH_TOOLS, "failed", text))
            return ToolCallOutcome(make_tool_return(use, "", SEARCH_TOOLS, text, outcome="failed"), is_invalid=True)
        self._events.publish(ToolStarted(use.id, "", SEARCH_TOOLS, args, "session"))
        offers, count = self._offers, min(max(limit, 1), MAX_MATCHES)
        found = await anyio.to_thread.run_sync(self._search, offers, query[:MAX_QUERY_CHARS], count)
        self.on_found(offer.spec.name for offer in found)
        text = describe_matches(found) if found else "No tool matches. Try other words or fewer words."
        self._events.publish(ToolFinished(use.id, "", SEARCH_TOOLS, "ok", text))
        return ToolCallOutcome(make_tool_return(use, "", SEARCH_TOOLS, text, outcome="ok"))

    def _search(self, offers: Sequence[ToolOffer], query: str, limit: int) -> list[ToolOffer]:
        index = self._index
        if index.offers is not offers:
            self._index = index = ToolIndex(offers)
        return index.search(query, limit)


def describe_matches(found: Iterable[ToolOffer]) -> str:
    """Return the result of a search as text: an introduction and one line for each tool found.

    Each line contains the tool's name and the start of its description.
    """
    lines = [
        "You can call these tools from your next message on. The servers wrote the descriptions; they are not verified."
    ]
    for offer in found:
        words = sanitize_line(" ".join(offer.spec.description.split()), _SHOWN_CHARS)
        lines.append(f"- {offer.spec.name}: {words}")
    return "\n".join(lines)


def parse_matches(text: str) -> tuple[str, ...]:
    """Return the tool names from a search result written by `describe_matches`."""
    lines = text.splitlines()[: MAX_MATCHES + 1]
    return tuple(line[2:].partition(": ")[0] for line in lines if line.startswith("- "))
