"""`ridgeline advise` and `ridgeline keys`: what would help, and how tuples are spread over keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from rich.table import Table
from rich.text import Text

from ridgeline.api.clock import SystemClock
from ridgeline.api.support.masking import printable
from ridgeline.cli.errors import make_console
from ridgeline.cli.grouping import option
from ridgeline.cli.remote.options import Named
from ridgeline.cli.tables import folded
from ridgeline.service.columns import words

_ASK_AGAIN_SECONDS = 0.5
_PATIENCE_SECONDS = 30.0
"""After so long without a window, what is known must do."""
_SHOWN_BLAME = 4


def advise(remote: Named, *, seconds: Annotated[float, option(called="--for", min=0)] = 10.0) -> None:
    """Say what would help, by how much.

    What would lower latency or raise throughput, and which command does it. Nothing is changed. The last
    windows are known; it watches until there are enough of them.

    Example: `ridgeline advise payments`

    Args:
        remote: The application.
        seconds: Watch for so long, in seconds; 0: by what is known.
    """
    client = remote.connect()
    clock, answer = SystemClock(), client.get("/advice")
    until = clock.monotonic() + seconds
    if answer["seconds"] < seconds:
        make_console().print(f"watching `{remote.app}` for {seconds:g} s ...", highlight=False)
    while answer["seconds"] < seconds and clock.monotonic() < until:
        clock.wait(min(_ASK_AGAIN_SECONDS, max(0.0, until - clock.monotonic())))
        answer = client.get("/advice")
    if not answer["enough"] and seconds:
        text = f"{answer['windows']} windows are known, watching until {answer['needed']} are ..."
        make_console().print(text, highlight=False)
    known, came = answer["windows"], clock.monotonic()
    while not answer["enough"] and seconds and clock.monotonic() < came + max(seconds, _PATIENCE_SECONDS):
        clock.wait(_ASK_AGAIN_SECONDS)
        answer = client.get("/advice")
        if answer["windows"] != known:
            known, came = answer["windows"], clock.monotonic()
    remote.show(answer, lambda _width: advice_parts(answer))


def advice_parts(answer: Any) -> Iterator[Text]:
    """The summary, then each piece of advice with its reason, its gain and its command."""
    if not answer["enough"]:
        yield Text(f"{answer['windows']} windows in {answer['seconds']:.0f} s: too little was seen")
        yield from (Text(printable(line)) for line in answer["unknown"])
        return
    spent = list(answer["blame"].items())[:_SHOWN_BLAME]
    shares = ", ".join(f"{what} {_time(seconds)}" for what, seconds in spent)
    yield Text(
        f"{answer['windows']} windows in {answer['seconds']:.0f} s; median {_time(answer['latencySeconds'])}"
        f" from trigger to commit. The mean window: {shares}"
    )
    yield from (Text(printable(line)) for line in answer["followed"])
    if not answer["advice"]:
        yield Text("no other number of partitions is known to help")
    for number, one in enumerate(answer["advice"], 1):
        yield Text(printable(f"{number}. {one['what']}: {one['why']}"))
        if one["after"] is not None:
            before, after = _figure(one["figure"], one["before"]), _figure(one["figure"], one["after"])
            yield Text(f"   {_NAMES.get(one['figure'], one['figure'])}: {before} now, {after} predicted")
        if one["command"]:
            yield Text(printable(f"   {one['command']}"))
    yield from (Text(printable(f"not known: {line}")) for line in answer["unknown"])


_NAMES = {
    "latency_p50_seconds": "median latency of a window",
    "tuples_per_second": "throughput, tuples/s",
    "utilization": "busy",
}


def _figure(figure: str, value: float) -> str:
    if figure.endswith("_seconds"):
        return _time(value)
    return f"{value:.0%}" if figure == "utilization" else f"{value:,.0f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{1000 * seconds:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


_ENOUGH_TUPLES = 1_000


def keys(
    remote: Named,
    operator: str | None = None,
    *,
    seconds: Annotated[float, option(called="--for", min=0)] = 5.0,
) -> None:
    """Say how tuples are spread over keys.

    Over partitions by key, and which keys have the most. Keys are counted from the first time on that
    somebody asks, so it watches for a while. That ends a minute after the last time.

    Example: `ridgeline keys payments`

    Args:
        remote: The application.
        operator ([OPERATOR]): Of this operator; without it of all that are divided by key.
        seconds: Watch the application for so long, in seconds.
    """
    client = remote.connect()
    query = {} if operator is None else {"operator": operator}
    clock, answer = SystemClock(), client.get("/keys", **query)
    until = clock.monotonic() + seconds
    if seconds and _waits(answer):
        make_console().print(f"counting the keys of `{remote.app}` for {seconds:g} s ...", highlight=False)
        while clock.monotonic() < until:
            clock.wait(min(_ASK_AGAIN_SECONDS, max(0.0, until - clock.monotonic())))
        answer = client.get("/keys", **query)
    remote.show(answer, lambda _width: key_parts(answer))


def _waits(answer: Any) -> bool:
    return any(one["tuples"] < _ENOUGH_TUPLES for one in answer["operators"])


_HEAVY = (
    words("key", "key"),
    words("share", "share", "{:.2%}".format),
    words("±", "error", "{:.2%}".format),
    words("partitions", lambda key: ", ".join(map(str, key["partitions"]))),
)


def key_parts(answer: Any) -> Iterator[Table | Text]:
    """For each operator how full its partitions are, and a table of its heavy keys."""
    if not answer["operators"]:
        yield Text("no operator is divided by key: none has several partitions and a key")
    for one in answer["operators"]:
        name = one["operator"]
        if one["imbalance"] is None:
            yield Text(printable(f"{name}: no tuples were counted yet"))
            continue
        shares = ", ".join(f"{share:.1%}" for share in one["byPartition"])
        shared = f"; {one['sharedCells']} cells are shared" if one["sharedCells"] else ""
        yield Text(
            printable(
                f"{name}: {one['tuples']:,} tuples by {one['partitioner']}{shared}; "
                f"the fullest partition has {one['imbalance']:.2f} times the mean: {shares}"
            )
        )
        if one["heavy"]:
            yield folded(_HEAVY, one["heavy"])
        if one["fixed"]:
            yield Text(printable(f"nobody may divide it otherwise: {one['fixed']}"))
