"""The commands that ask a running application for its figures, plans and regions."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from typing import Annotated
from urllib.parse import quote

from rich.text import Text

from ridgeline.cli.grouping import option
from ridgeline.cli.remote.options import Nearest


def operators(remote: Nearest, pattern: str | None = None, *, containers: bool = False) -> None:
    """List operators, or containers: where they run.

    All physical operators: partitions and unifiers, and what they do.

    Example: `ridgeline operators quotes 'high*'`

    Args:
        remote: The application.
        pattern ([PATTERN]): Only those whose title or id matches: `quote*`, `7`.
        containers: List the containers instead: host, heartbeat, operators.
    """
    from ridgeline.cli.errors import CommandError
    from ridgeline.cli.tables import drawn
    from ridgeline.service.tables import TABLES

    if containers:
        remote.ask("/physicalPlan/containers", "containers", rows="containers")
        return
    answer = remote.connect().get("/physicalPlan/operators")
    if pattern is not None:
        rows = [
            operator
            for operator in answer["operators"]
            if matches(operator, pattern, ("operator", "logicalName", "id"))
        ]
        if not rows:
            titles = ", ".join(f"`{operator['operator']}`" for operator in answer["operators"][:20])
            raise CommandError(f"no operator matches `{pattern}`; there are {titles}")
        answer = {**answer, "operators": rows}
    remote.show(answer, lambda width: [drawn(TABLES["operators"], answer["operators"], width)])


def critical_path(remote: Nearest) -> None:
    """Show which operators make up a window's latency.

    Also how much slower the others may become, and what else the window waited for.

    Example: `ridgeline critical-path quotes`
    """
    from ridgeline.cli.views.path import critical_path_parts

    remote.ask("/criticalPath", critical_path_parts)


def latency(remote: Nearest) -> None:
    """Show the latency of every physical operator.

    Of the last window, in its parts, and of all windows.

    Example: `ridgeline latency quotes`
    """
    remote.ask("/latency", "latency", rows="operators", none="no window is committed yet")


def record_age(remote: Nearest, *, watermarks: bool = False) -> None:
    """Show how old records are, or how late event time.

    Over the last minute: at sources, in state, when emitted, when committed.

    Example: `ridgeline record-age quotes`

    Args:
        remote: The application.
        watermarks: Show event time instead: how far it is, which input holds it back, what came too late.
    """
    from ridgeline.cli.views.lists import watermarks_table
    from ridgeline.cli.views.screen import ages_table

    if watermarks:
        none = (
            "no watermarks yet: no window is committed, or no input declares times and a `lateness`, as in "
            '`FileInput(..., timestamp="time", lateness="5s")`'
        )
        remote.ask("/watermarks", watermarks_table, rows="operators", none=none)
        return
    none = 'no record ages: no port of an input operator or sink declares `timestamp="..."`'
    remote.ask("/recordAge", ages_table, rows="operators", none=none)


def progress(remote: Nearest) -> None:
    """Show how far a long window is, and what waits.

    At the sources, and when that will be processed.

    Example: `ridgeline progress quotes`
    """
    from ridgeline.cli.views.running import progress_parts

    remote.ask("/progress", progress_parts)


def lines(remote: Nearest, operator: str | None = None, *, stack: bool = False) -> None:
    """Show the lines where Python spends its time.

    Over the last minute. `of its time` is the part of the operator's time, `of the path` that of the critical
    path. Both are estimates, from 50 samples a second. They are always taken; they cost less than 1 % of the
    time. `py-spy record --pid PID` draws whole stacks: `operators --containers` has the ids.

    Examples: `ridgeline lines quotes parse`, `ridgeline lines quotes 0 --stack`

    Args:
        remote: The application.
        operator ([OPERATOR]): Only of this operator; with `--stack` the id of a container.
        stack: Show where the thread of a container is: now, or when last heard of.
    """
    from ridgeline.cli.errors import CommandError
    from ridgeline.cli.views.lines import lines_parts, stack_text

    if stack:
        if operator is None:
            raise CommandError("`--stack` is of one container; give its id: see `operators --containers`")
        path = f"/physicalPlan/containers/{quote(operator, safe='')}/stackTrace"
        remote.ask(path, lambda found, _width: [stack_text(found)])
        return
    remote.ask("/lines", lines_parts, **({} if operator is None else {"operator": operator}))


def metrics(remote: Nearest, pattern: str | None = None) -> None:
    """List the metrics that operators declare.

    As of their last windows.

    Example: `ridgeline metrics quotes 'parse.*'`

    Args:
        remote: The application.
        pattern ([PATTERN]): Only of such operators, or such metrics: `parse`, `parse.bad*`.
    """
    from ridgeline.cli.errors import CommandError
    from ridgeline.cli.views.own_metrics import matching, metrics_parts

    answer = matching(remote.connect().get("/metrics"), pattern)
    if pattern is not None and not answer["metrics"]:
        raise CommandError(f"no metric of an operator matches `{pattern}`; `ridgeline metrics` lists all")
    remote.show(answer, lambda width: metrics_parts(answer, width))


def windows(remote: Nearest, *, limit: Annotated[int, option(min=1)] = 20) -> None:
    """List the last windows, their latency and path.

    Those that are committed, with their critical path.

    Example: `ridgeline windows quotes --limit 100`

    Args:
        remote: The application.
        limit (N): Only the last N windows.
    """
    from ridgeline.cli.views.lists import windows_table

    remote.ask("/windows", windows_table, rows="windows", none="no window is committed yet", limit=limit)


def page(remote: Nearest, *, browser: Annotated[bool, option(called="--open")] = False) -> None:
    """Print an address that opens the page, once.

    With the right to change the application. It is good for an hour. To read only, the address of the web
    service is enough, unless it asks for a token.

    Example: `ridgeline page quotes --open`

    Args:
        remote: The application.
        browser: Open it in the browser of this machine.
    """
    client = remote.connect()
    address = client.url + client.post("/page")["path"]
    remote.show({"url": address}, lambda _width: [Text(address)])
    if browser:
        import webbrowser

        webbrowser.open(address)


def top(remote: Nearest) -> None:
    """Watch an application on the screen of `run`.

    Also from another terminal; Ctrl-C leaves it. With `--json`, or where there is no terminal, it prints an
    overview or a few lines every second with a window. `ridgeline page --open` shows more.

    Example: `ridgeline top quotes`
    """
    from ridgeline.cli.remote import watching

    watching.top(remote.connect(), as_json=remote.as_json)


def matches(row: dict[str, object], pattern: str, names: Iterable[str]) -> bool:
    """True if one of the fields of these names is like the pattern."""
    return any(fnmatch.fnmatchcase(str(row[name]), escape(pattern)) for name in names)


def escape(pattern: str) -> str:
    """`quote[1]` means that title, not `quote1`: brackets around digits alone stand for themselves.

    >>> escape("quote[1]"), escape("[a-c]*")
    ('quote[[]1]', '[a-c]*')
    """
    return re.sub(r"\[(\d+\])", r"[[]\1", pattern)


def status(remote: Nearest, *, info: bool = False) -> None:
    """Say whether it keeps up, who is slow, what helps.

    First in a sentence. Then how old records are at each sink, and how busy the slowest operator is. Then
    what waits at the sources, and what would help, with its command.

    Example: `ridgeline status quotes`

    Args:
        remote: The application.
        info: Show the application as a whole: state, windows, latency, containers.
    """
    from ridgeline.cli.views.lists import info_lines
    from ridgeline.cli.views.status import status_parts

    if info:
        remote.ask("/info", info_lines)
        return
    client = remote.connect()
    sentence = client.get("/sentence")
    answer = {}
    if sentence["state"] in {"ok", "behind", "stuck"}:
        more = {"recordAge": "/recordAge", "progress": "/progress", "criticalPath": "/criticalPath"}
        answer = {name: client.get(path) for name, path in more.items()}
        answer["advice"] = client.get("/advice")["advice"]
    remote.show({**sentence, **answer}, lambda width: status_parts(sentence, answer, width))


_PATIENCE = 40


def regions(remote: Nearest, *, start: str | None = None, stop: str | None = None) -> None:
    """List the regions and the queues between them.

    Decoupled streams make regions of an application. Or start or stop one of them; the others continue.

    Example: `ridgeline regions quotes --stop store`

    Exit codes: 0 done, or it will be soon, 2 there is no such region, it runs already or does not run.

    Args:
        remote: The application.
        start (REGION): Start this one from its checkpoint, once it has failed or was stopped.
        stop (REGION): End this one after the windows under way; queues keep what comes for it.
    """
    from ridgeline.cli.views.lists import regions_parts

    region = start or stop
    if region is None:
        remote.ask("/regions", regions_parts)
        return
    path = f"/regions/{quote(region, safe='')}/{'start' if start else 'stop'}"
    answer = remote.connect().post(path, wait=30, patience=_PATIENCE)
    why = f": {answer['error']}" if answer["error"] else ""
    line = Text(f"region {answer['name']} is {answer['state'].lower()}{why}")
    remote.show(answer, lambda _width: [line])
