"""Garbage collections that visit only the objects of the current test."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def leave_out_existing_objects() -> Generator[None]:
    """Leave all objects that exist now out of garbage collections; a worker has millions of them.

    Afterwards, all objects that still exist are left out, as `conftest.py` leaves out those of the imports. Garbage
    among the objects that existed before stays in memory: to find it, a collection would have to visit all objects,
    which took up to 30 s on a busy machine.
    """
    gc.freeze()
    gc.collect()  # otherwise, Python would wait until a quarter as many objects are new
    try:
        yield
    finally:
        gc.collect()
        gc.freeze()
