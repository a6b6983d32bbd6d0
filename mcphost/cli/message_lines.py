"""Formatting of messages and HTTP exchanges for commands: secrets are removed, but the text is not sanitized."""

from typing import TYPE_CHECKING

from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.http_log import LoggedExchange
    from mcphost.message_log import LoggedMessage


def format_message(message: "LoggedMessage") -> str:
    """Return a message with its direction in one line."""
    arrow, rest = "→" if message.direction == "sent" else "←", message.cut_bytes
    text = " ".join(message.to_text().splitlines())
    more = _(" … and {bytes:,} more bytes").format(bytes=rest) if rest else ""
    return f"{arrow} {text}{more}"


def format_exchange(exchange: "LoggedExchange", *, with_headers: bool = True) -> list[str]:
    """Return an HTTP exchange in one line, followed by a line for each header."""
    from mcphost.http_log import show_headers

    is_open = exchange.outcome == "open"
    head = exchange.head_seconds if is_open else exchange.seconds
    facts = [
        str(exchange.status) if exchange.status else "",
        exchange.content_type,
        "" if is_open else _("{bytes:,} bytes").format(bytes=exchange.response_size),
        "" if head is None else _("{count} ms").format(count=round(head * 1000)),
        {"open": _("still open"), "complete": "", "closed": _("closed by mcphost")}.get(
            exchange.outcome, exchange.error
        ),
    ]
    sign_in = "" if not exchange.sign_in else _("sign-in: {purpose}").format(purpose=exchange.sign_in)
    what = " ".join(filter(None, (exchange.verb, exchange.target, exchange.rpc_method, sign_in)))
    lines = [f"⇄ {what} {', '.join(filter(None, facts))}"]
    if with_headers:
        lines += [f"  > {name}: {value}" for name, value in show_headers(exchange.request_headers)]
        lines += [f"  < {name}: {value}" for name, value in show_headers(exchange.response_headers)]
    return lines
