"""The lines of operators that a bundle keeps, chosen as a running application's are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.service.history.bundled_run import BundledRun
from ridgeline.service.history.bundling import LOG, entry_of
from ridgeline.service.history.logged_run import LoggedRun
from ridgeline.service.http.endpoint import AnswerError
from ridgeline.service.http.endpoints import BASE
from ridgeline.service.http.log import log_endpoint

ENDPOINT = log_endpoint(BASE)
_MOST = 1000
_NONE = "no line of an operator is kept"


def has_lines(run: LoggedRun | BundledRun) -> bool:
    """Whether a run keeps lines of operators: an event log never does."""
    return isinstance(run, BundledRun) and run.has(entry_of(LOG, {}))


def lines_of(run: LoggedRun | BundledRun, asked: Mapping[str, Any]) -> Any:
    """The answer of a running application's `/log`, of the lines that are kept.

    Raises AnswerError: 404 for a run that keeps none, 400 for a container, 409 for a damaged bundle.
    """
    if isinstance(run, LoggedRun):
        raise AnswerError(404, _NONE, "make a bundle while the application runs: `ridgeline bundle APP`")
    if asked.get("container") is not None:
        raise AnswerError(400, "a bundle does not know lines by container", "give `operator` and `partition`")
    if not has_lines(run):
        raise AnswerError(404, _NONE, "`index.json` in the bundle says why")
    answer = run.kept(LOG, {})
    try:
        lines = [line for line in answer["lines"] if _is_wanted(line, asked)]
        return {**answer, "lines": lines[-(asked.get("limit") or _MOST) :]}
    except (KeyError, TypeError, AttributeError) as error:
        raise AnswerError(
            409,
            f"the lines of the bundle are damaged: {type(error).__name__} {error}",
            "make it again with `ridgeline bundle`",
        ) from None


def _is_wanted(line: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether a line is of the operator or module, partition and region, and new."""
    name, operator = asked.get("operator"), line["operator"]
    if name is not None and operator != name and not operator.startswith(f"{name}."):
        return False
    if line["number"] <= (asked.get("after") or 0):
        return False
    return all(asked.get(one) in (None, line.get(one)) for one in ("partition", "region"))
