"""The commands about logs: what operators print and log, and the levels of loggers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.grouping import option
from ridgeline.cli.remote.options import Nearest
from ridgeline.engine.process.log_channel import LogLevel

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client

_MOST = 1000
_LOOK_SECONDS = 0.5
_STYLES = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red", "DEBUG": "dim"}


class _Level(StrEnum):
    """The levels of a logger, and the one that it had before."""

    DEBUG = LogLevel.DEBUG
    INFO = LogLevel.INFO
    WARNING = LogLevel.WARNING
    ERROR = LogLevel.ERROR
    DEFAULT = "DEFAULT"


def logs(
    remote: Nearest,
    *,
    follow: Annotated[bool, option(called="--follow -f")] = False,
    operator: str | None = None,
    partition: Annotated[int | None, option(min=0)] = None,
    container: Annotated[int | None, option(min=0)] = None,
    region: str | None = None,
    lines: Annotated[int, option(called="--lines -n", min=1, max=_MOST)] = 100,
    level: Annotated[tuple[str, _Level] | None, option(case_sensitive=False)] = None,
) -> None:
    """Show what operators print and log; set log levels.

    Also what Ridgeline logs about them. The last lines are kept, 500 of each operator and partition. Where
    more is said than can be kept, it says how much is left out. Secrets are masked. With `--json` each line
    is an object.

    Examples: `ridgeline logs quotes -f --operator parse`, `ridgeline logs quotes --level quotes.rules DEBUG`

    Args:
        remote: The application.
        follow: Go on with what comes, until its end or Ctrl-C.
        operator (NAME): Only this operator, or this module's.
        partition (N): Only this partition.
        container (ID): Only this container and its process.
        region (NAME): Only this region, of several.
        lines (N): How many of the last lines.
        level (LOGGER LEVEL): Set the level of a logger and of those below it, in driver and slots, until the
            driver ends. DEBUG, INFO, WARNING or ERROR; DEFAULT: as before. `root` is above all.
    """
    from ridgeline.cli.remote.shared import make_console, print_json

    client = remote.connect()
    if level is not None:
        wanted = [{"target": level[0], "logLevel": str(level[1])}]
        changed = client.post("/loggers", loggers=wanted)
        remote.show(changed, lambda _width: _levels(changed["loggers"]))
        return
    chosen: dict[str, Any] = {"operator": operator, "partition": partition, "container": container}
    if region is not None:
        chosen["region"] = region
    console = make_console()

    def show(found: Iterable[dict[str, Any]]) -> None:
        for one in found:
            if remote.as_json:
                print_json(one, indent=None)
            else:
                console.print(*line_texts(one), sep="\n", soft_wrap=True)

    answer = client.post("/log", limit=lines, **chosen)
    show(answer["lines"])
    if not answer["lines"] and not follow and not remote.as_json:
        console.print(Text("no line yet: workers send what operators say once a second"))
    if follow:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(client, answer["last"], chosen, show)


def _follow(client: Client, last: int, wanted: dict[str, Any], show: Any) -> None:
    """Show what comes, until the application has ended."""
    from ridgeline.api.clock import SystemClock
    from ridgeline.api.errors import RidgelineError
    from ridgeline.cli.errors import CommandError

    clock = SystemClock()
    while True:
        clock.wait(_LOOK_SECONDS)
        try:
            answer = client.post("/log", after=last, limit=_MOST, **wanted)
        except CommandError:
            raise
        except RidgelineError:
            return  # it has ended
        last = answer["last"]
        show(answer["lines"])


def line_texts(line: dict[str, Any]) -> list[Text]:
    """A line for people, as in a log: time (UTC), region, operator and partition, level, logger, text.

    Before it, how many lines are left out, if any are.
    """
    names = [line["region"]] if line.get("region") else []
    names += [f"{line['operator']}:{line['partition']}"] if line["operator"] else []
    mark = f"[{' '.join(names)}] " if names else ""
    at = datetime.fromtimestamp(line["at"], UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = f"{line['level']} {line['logger']}: " if line["level"] else ""
    texts = []
    if line["leftOut"]:
        texts.append(Text(f"... {line['leftOut']:,} lines are left out", "dim"))
    style = _STYLES.get(line["level"], "")
    texts.append(Text.assemble((f"{at} ", "dim"), (mark, "cyan"), (record, style), line["text"]))
    return texts


def _levels(rows: Iterable[Any]) -> Iterable[Text]:
    """A line for each logger whose level is set."""
    lines = [Text(f"{printable(row['target'])} {row['logLevel']}") for row in rows]
    return lines or [Text("all loggers have the levels of the start")]
