"""The endpoints of the last lines that operators have printed or logged, and of the levels of loggers.

Secrets are masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from ridgeline.api.errors import shorten
from ridgeline.api.operator import operator_type
from ridgeline.api.support.masking import MASK, mask_text, printable, secrets_in
from ridgeline.engine.driver.operator_log import LogLine
from ridgeline.engine.process import log_channel
from ridgeline.observe.watch import Watch
from ridgeline.plan.execution import Plan
from ridgeline.regions.joined_watch import JoinedWatch
from ridgeline.service.access.roles import Role
from ridgeline.service.http.answers import LogAnswer, LoggersAnswer, LogLineAnswer
from ridgeline.service.http.endpoint import AnswerError, Call, Rows, Within, found, unknown
from ridgeline.service.http.regions import view_of

MOST_LINES = 1000
_LONGEST = 1000
_SHORTEST_SECRET = 4
Hide = Callable[[str], str]
_TITLE = re.compile(r"(.*?)(?:\[(\d+)\])?")


LOG = Rows()


@LOG.request("/log", role=Role.OPERATE, is_noted=False)
def _log(
    call: Call,
    operator: str | None = None,
    partition: Annotated[int | None, Within(0)] = None,
    container: Annotated[int | None, Within(0)] = None,
    region: str | None = None,
    after: Annotated[int, Within(0)] = 0,
    limit: Annotated[int, Within(1, MOST_LINES)] = 200,
) -> LogAnswer:
    """The last lines that operators printed or logged. It asks for more than the right to read.

    Raises AnswerError (404) if there is no such operator, container or region.

    Args:
        call: The request.
        operator: the name of a logical operator; default: all lines
        partition: a partition of it; default: all
        container: the id of a container; default: all
        region: the name of a region, from `/regions`; default: all
        after: only lines after this one, by `last` of an answer before
        limit: how many lines; default: 200
    """
    name = operator
    if name is not None:
        _check_name(call, name)
    titles, process = _of_container(call, container)
    region_of = regions_of(call.watch)
    if region is not None:
        view_of(call.watch, region)

    def wanted(line: LogLine) -> bool:
        own = name is None or line.operator == name or line.operator.startswith(f"{name}.")
        here = partition is None or line.partition == partition
        here = here and (region is None or region_of(line) == region)
        if titles is None:
            return own and here
        if line.operator:
            return own and here and (line.operator, line.partition) in titles
        return own and here and (line.host, line.pid) == process

    log = call.log
    if log is None:
        return {"lines": [], "last": 0, "leftOut": 0}
    lines, last, left_out = log.lines(wanted, after, limit)
    hide = _hide(call.plan)
    shown = [_shown(line, hide, call.watch, region_of(line)) for line in lines]
    return {"lines": shown, "last": last, "leftOut": left_out}


@LOG.question("/loggers", tag="log", needs_run=True)
def _get_levels(_call: Call) -> LoggersAnswer:
    """The levels of loggers that were set while the application runs."""
    return _levels(log_channel.levels())


@LOG.request("/loggers", role=Role.OPERATE, tag="log")
def _set_levels(_call: Call, loggers: list[Any] | None = None) -> LoggersAnswer:
    """Set the levels of loggers in the driver and its slots, all or none, until the driver ends.

    Raises AnswerError (400).

    Args:
        _call: The request.
        loggers: such as `{"target": "accounts.rules", "logLevel": "DEBUG"}`; the level is one of DEBUG,
            INFO, WARNING, ERROR, DEFAULT
    """
    hint = 'send `{"loggers": [{"target": "accounts.rules", "logLevel": "DEBUG"}]}`'
    wanted: dict[str, str] = {}
    for one in loggers or ():
        keys = set(one) if isinstance(one, dict) else set()
        if keys != {"target", "logLevel"} or not all(isinstance(value, str) for value in one.values()):
            raise AnswerError(
                400, f"each of `loggers` has the texts `target` and `logLevel`; got {shorten(one)}", hint
            )
        wanted[one["target"]] = one["logLevel"].upper()
    if not wanted:
        raise AnswerError(400, "`loggers` names no logger", hint)
    try:
        return _levels(log_channel.change(wanted))
    except ValueError as error:
        names = ", ".join(shorten(f"{name}={level}") for name, level in wanted.items())
        raise AnswerError(400, f"no levels were set for {shorten(names)}", str(error)) from None


def _levels(found: Mapping[str, str]) -> LoggersAnswer:
    return {"loggers": [{"target": name, "logLevel": level} for name, level in sorted(found.items())]}


def _check_name(call: Call, name: str) -> None:
    """Raise AnswerError (404) if the plan has no operator or module of this name."""
    names = [operator.name for operator in call.plan.logical.operators]
    if not any(one == name or one.startswith(f"{name}.") for one in names):
        raise unknown("logical operator", name, names)


def regions_of(watch: Watch) -> Callable[[LogLine], str | None]:
    """The region of a line: that of its operator, else of its process; None where there is one region."""
    if not isinstance(watch, JoinedWatch):
        return lambda _: None
    operators: dict[str, str] = {}
    processes: dict[tuple[str | None, int | None], set[str]] = {}
    for view in watch.views:
        for node in view.watch.topology.operators:
            operators[node.name] = operators[node.name.partition("#")[0]] = view.name
        operators.update((one.name, view.name) for one in view.region.plan.logical.operators)
        for row in view.containers():
            processes.setdefault((row["host"], row["pid"]), set()).add(view.name)

    def region_of(line: LogLine) -> str | None:
        if line.operator:
            return operators.get(line.operator)
        found = processes.get((line.host, line.pid), set())
        return next(iter(found)) if len(found) == 1 else None

    return region_of


def _of_container(
    call: Call, container: int | None
) -> tuple[set[tuple[str, int]] | None, tuple[str | None, int | None]]:
    """The operators with their partitions, and the process, of the container that is asked for, if one is."""
    if container is None:
        return None, (None, None)
    answer = found(call.watch.container, container)
    titles = [_TITLE.fullmatch(title) for title in answer["operators"].values()]
    own = {(title[1], int(title[2] or 0)) for title in titles if title is not None}
    return own, (answer["host"], answer["pid"])


def _shown(line: LogLine, hide: Hide, watch: Watch, region: str | None) -> LogLineAnswer:
    """A line without secrets, and without what could control a terminal."""
    text = printable(mask_text(hide(line.text)))
    shown: LogLineAnswer = {
        "number": line.number,
        "at": line.at,
        "operator": line.operator,
        "partition": None if line.partition < 0 else line.partition,
        "windowId": None if line.window < 0 else line.window,
        "traceId": watch.trace_of(line.operator, line.window),
        "source": line.source,
        "level": printable(line.level),
        "logger": printable(line.logger),
        "text": text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…",
        "host": line.host,
        "pid": line.pid,
        "leftOut": line.left_out,
    }
    if region is not None:
        shown["region"] = region
    return shown


_kept: dict[str, tuple[Plan, Hide]] = {}
"""What hides the secrets of the last plan that was asked about."""


def _hide(plan: Plan) -> Hide:
    """A function that hides the secrets of a plan in a text."""
    known = _kept.get("last")
    if known is None or known[0] is not plan:
        known = _kept["last"] = plan, _hiding(plan)
    return known[1]


def _hiding(plan: Plan) -> Hide:
    """As `_hide`, made anew."""
    secrets: set[str] = set()
    for one in plan.logical.operators:
        values = vars(one.operator)
        for name in operator_type(type(one.operator)).properties:
            for secret in secrets_in(name, values.get(name)):
                secrets.add(secret.decode(errors="replace") if isinstance(secret, bytes) else secret)
    long = sorted((one for one in secrets if len(one) >= _SHORTEST_SECRET), key=len, reverse=True)
    if not long:
        return str
    pattern = re.compile("|".join(map(re.escape, long)))
    return lambda text: pattern.sub(MASK, text)
