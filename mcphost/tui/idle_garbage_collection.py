"""Full garbage collections while the user pauses.

A full collection stops the program for about a microsecond per object: 0.2 s with a form of a hundred fields or a long
conversation. Python starts a collection whenever enough objects have been created, for example while the next page is
being drawn.
"""

import asyncio
import gc
from collections.abc import Callable
from time import monotonic, process_time

CHECK_SECONDS = 1.0
QUIET_SECONDS = 2.0
"""Seconds without a key, click or paste after which a full collection may begin."""
MAX_BUSY = 0.3
"""Maximum CPU time in seconds since the last check for the program to count as idle."""
MIN_COLLECTIONS = 10
"""Collections of the middle generation after which a full one is worthwhile; each one follows 7,000 new objects."""
MAX_COLLECTIONS = 100
"""Collections of the middle generation after which Python starts a full one without waiting for a pause."""
_NEW_OBJECTS = 700
_YOUNG_COLLECTIONS = 10


async def collect_garbage_in_pauses(last_input: Callable[[], float]) -> None:
    """Run full garbage collections whenever both the user and the program are idle, until cancelled.

    *last_input* returns the time of the last input, as given by `time.monotonic`. Young objects are still collected
    automatically, which takes a few milliseconds. In Python 3.14, the thresholds that this function sets have no
    effect, because old objects are collected in small steps.
    """
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_COLLECTIONS, MAX_COLLECTIONS)
    try:
        while True:
            used = process_time()
            await asyncio.sleep(CHECK_SECONDS)
            is_idle = process_time() - used <= MAX_BUSY
            if is_idle and gc.get_count()[2] >= MIN_COLLECTIONS and monotonic() - last_input() >= QUIET_SECONDS:
                gc.collect()
    finally:
        gc.set_threshold(*before)
