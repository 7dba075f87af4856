"""The ids of the traces of windows: made of the run and the window, so that each process can name them.

A window that a later driver runs again has the same trace. Its spans have other ids: these have the driver's
epoch in them.
"""

from __future__ import annotations

from hashlib import blake2b

_LOW = 2**64 - 1


def run_of(application_id: str) -> str:
    """The id of the run, which all drivers on one checkpoint share.

    >>> run_of("5f3a-2")
    '5f3a'
    """
    run, dash, _ = application_id.rpartition("-")
    return run if dash else application_id


def trace_id(run: str, window_id: int) -> int:
    """The id of a window's trace, 128 bits, never 0. Equal windows have equal ids; others look random."""
    return int.from_bytes(blake2b(f"{run}/{window_id}".encode(), digest_size=16).digest()) or 1


def trace_text(run: str, window_id: int) -> str:
    """The same in 32 hexadecimal digits, as logs have it.

    >>> len(trace_text("5f3a", 7)), trace_text("5f3a", 7) == trace_text("5f3a", 8)
    (32, False)
    """
    return f"{trace_id(run, window_id):032x}"


def span_id(application_id: str, window_id: int, number: int = 0) -> int:
    """The id of a span of a window, 64 bits, never 0; `number` 0: of the window as a whole."""
    text = f"{application_id}/{window_id}/{number}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1


def is_sampled(trace: int, ratio: float) -> bool:
    """Whether a trace is one of the share `ratio`, by the rule of OpenTelemetry's `TraceIdRatioBased`."""
    return trace & _LOW < round(ratio * 2**64)
