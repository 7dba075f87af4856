"""Answers about the promises of an application."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict


class PromiseAnswer(TypedDict):
    """A promise, and whether it is kept."""

    promise: Annotated[str, "Its name, such as `latency_p99:store`."]
    kind: Annotated[
        str, "`latency`, `window_latency`, `caught_up_within`, `error_share`, `late_share` or `throughput`."
    ]
    operator: Annotated[str, "The operator that it is of; empty: the application."]
    kept: Annotated[bool | None, "Whether it is kept; null if nothing can be said of it."]
    since: Annotated[float, "Since when, seconds since 1970."]
    figure: Annotated[float | None, "What was measured when it changed, in `unit`."]
    limit: Annotated[float, "What is promised, in `unit`."]
    unit: Annotated[str, "`s`, `tuples/s` or `share`."]
    brokenSeconds: Annotated[float, "How long it was broken in this run, in sum."]
    timesBroken: Annotated[int, "How often it was broken in this run."]


class PromisesAnswer(TypedDict):
    """The promises of an application."""

    promises: Annotated[list[PromiseAnswer], "As the application makes them."]
