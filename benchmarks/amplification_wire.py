"""Hostile input to the wire: lines, JSON-RPC, event streams and HTTP bodies (see `amplification`)."""

from benchmarks.amplification import MB, Meter, case


@case("pipe: a line with one half of a surrogate pair", size=15 * MB)
async def half_surrogate(meter: Meter, size: int) -> None:
    mux = silent_mux()
    line = b'{"jsonrpc":"2.0","id":1,"result":{"t":"\\ud800' + b"\\n" * (size // 2) + b'"}}'
    with meter.measuring(len(line)):
        mux.received(line)


@case("pipe: a batch in a revision without batches", size=10 * MB)
async def unexpected_batch(meter: Meter, size: int) -> None:
    mux = silent_mux()
    line = b"[" + b",".join([b"{}"] * (size // 3)) + b"]"
    with meter.measuring(len(line)):
        mux.received(line)


def silent_mux():
    """A multiplexer whose peer is never written to."""
    from mcphost.transport.mux import Mux

    return Mux(lambda line: None, None, lambda text: None, "hostile")
