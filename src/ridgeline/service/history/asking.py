"""Asks a run that is read from its log, as the client of commands asks a running application."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ridgeline.api.errors import RidgelineError
from ridgeline.service.history.answering import ENDPOINTS, Asked, answer
from ridgeline.service.history.logged_run import LoggedRun
from ridgeline.service.http.bodies import AnswerError
from ridgeline.service.http.endpoint import Endpoint
from ridgeline.service.http.endpoints import BASE
from ridgeline.service.page.state import PageState


class LogAsks:
    """The answers of a log. Raises NotALogError for a file that is none."""

    def __init__(self, path: Path) -> None:
        self._run = LoggedRun(path, lambda _: False)
        self._run.load(follow=False)
        self._patterns = [(_pattern(one), one) for one in ENDPOINTS if one.method == "GET"]

    def get(self, path: str, **query: str | int) -> Any:
        """The answer to GET. Raises RidgelineError."""
        endpoint, placed = self._find(path)
        try:
            given = {**placed, **{name: str(value) for name, value in query.items()}}
            known = {one.name: one for one in (*endpoint.path_parameters, *endpoint.query)}
            values = {name: known[name].parse(text) for name, text in given.items() if name in known}
            return answer(endpoint, Asked(self._run.watch, self._run.plan, values))
        except AnswerError as error:
            raise RidgelineError(f"{error.error}; {error.hint}" if error.hint else error.error) from error

    def whole(self) -> Mapping[str, Any]:
        """The state that a page gets."""
        watch = self._run.watch
        return {**PageState(watch).of(self._run.plan), "windows": watch.windows()}

    def log(self, limit: int) -> Any:
        """Raise RidgelineError: an event log has no lines of operators."""
        raise RidgelineError(f"an event log has none of the last {limit} lines that operators printed")

    def _find(self, path: str) -> tuple[Endpoint, dict[str, str]]:
        """The endpoint of a path, and the values in it. Raises RidgelineError."""
        for pattern, endpoint in self._patterns:
            if (found := pattern.fullmatch(path)) is not None:
                return endpoint, {name: unquote(text) for name, text in found.groupdict().items()}
        raise RidgelineError(f"there is no `{path}`")


def _pattern(endpoint: Endpoint) -> re.Pattern[str]:
    """Matches the paths of an endpoint, with a group for each value in them."""
    path = re.escape(endpoint.path.removeprefix(BASE))
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", path))
