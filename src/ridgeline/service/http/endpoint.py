"""A path of the web service: its route, its handler and its description in one value."""

from __future__ import annotations

import contextlib
import inspect
import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from starlette.requests import Request

from ridgeline.api.errors import did_you_mean, shorten
from ridgeline.api.support.documented import Described, documented
from ridgeline.regions.joined_watch import RegionNeededError
from ridgeline.service import BASE
from ridgeline.service.access.roles import UNKNOWN, Caller, Role
from ridgeline.service.http import apex
from ridgeline.service.http.answers import LogicalPlanAnswer, LogicalPlanOperatorAnswer
from ridgeline.service.http.apex import KeptPlan
from ridgeline.service.http.bodies import AnswerError, read_object

if TYPE_CHECKING:
    from ridgeline.engine.driver.operator_log import OperatorLog
    from ridgeline.observe.watch import Watch
    from ridgeline.plan.execution import Plan
    from ridgeline.regions.joined_run import AnyRun
    from ridgeline.service.origin import Origin


__all__ = [
    "BASE",
    "WHO",
    "AnswerError",
    "Call",
    "Endpoint",
    "Handler",
    "Parameter",
    "Rows",
    "Within",
    "found",
    "unknown",
    "waiting",
]
_FORMS: Mapping[str, tuple[type[Any], str]] = {"array": (list, "a list"), "object": (dict, "an object")}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a path, a query or a body.

    `kind` is `integer`, `string` or `boolean`; numbers lie between `least` and `most`. In a body it may be
    `array`, `object`, or `any`, which is any JSON value.
    """

    name: str
    kind: str
    help: str
    least: int | None = None
    most: int | None = None

    def parse(self, text: str) -> int | str | bool:
        """The value of a text. Raises AnswerError (400) if it is none."""
        if self.kind == "string":
            return text
        if self.kind == "boolean":
            return self._truth(text)
        try:
            number = int(text)
        except ValueError:
            number = None
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        if number is None or not least <= number <= most:
            limits = {"at least": self.least, "at most": self.most}
            said = " and ".join(f"{what} {one}" for what, one in limits.items() if one is not None)
            wanted = f"`{self.name}` must be a whole number{', ' if said else ''}{said}"
            raise AnswerError(400, f"{wanted}; got `{text[:100]}`", self.help)
        return number

    def _truth(self, text: str) -> bool:
        if text.lower() not in {"true", "false"}:
            raise AnswerError(400, f"`{self.name}` must be true or false; got `{text[:100]}`", self.help)
        return text.lower() == "true"

    def take(self, value: Any) -> Any:
        """The value of a JSON value that a body has. Raises AnswerError (400) if it is none."""
        if self.kind == "any":
            return value
        if self.kind in _FORMS:
            form, called = _FORMS[self.kind]
            if not isinstance(value, form):
                raise AnswerError(400, f"`{self.name}` must be {called}; got {shorten(value)}", self.help)
            return value
        return self.parse(value if isinstance(value, str) else json.dumps(value))


_waiting = threading.BoundedSemaphore(16)
"""Requests that may wait at a time."""
_NOT_BEGUN = "the application has not begun its first window"


WHO = Parameter("who", "string", "who asks; default: REST")


@contextlib.contextmanager
def waiting(seconds: int) -> Iterator[int]:
    """How many seconds an answer may wait; 0 if as many wait as may: others must be answered."""
    free = seconds > 0 and _waiting.acquire(blocking=False)
    try:
        yield seconds if free else 0
    finally:
        if free:
            _waiting.release()


def needs_running() -> AnswerError:
    """The answer to what only a running application can do."""
    hint = "it needs the running application; `ridgeline ps` lists those that run"
    return AnswerError(409, "a run that is read from its log cannot be asked for this", hint)


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its parameters, and the application that it is about.

    `values` are the parameters, parsed; those of the query that are not given are missing.
    """

    watch: Watch
    planned: Plan | KeptPlan
    """The plan; of a run that is read from its log, what that keeps of it."""
    values: Mapping[str, Any]
    stack_of: Callable[[str, int], str | None] | None = None
    run: AnyRun | None = None
    """The run, once it is about to run its first window."""
    origin: Origin | None = None
    """How the application is started again, and what configured it, where that is known."""
    log: OperatorLog | None = None
    """The last lines that operators have said, where they run in workers."""
    caller: Caller = UNKNOWN
    """Who asks, with the role of that moment."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def is_logged(self) -> bool:
        """Whether nothing runs, and all that is known is from a log."""
        return isinstance(self.planned, KeptPlan)

    @property
    def plan(self) -> Plan:
        """The plan. Raises AnswerError (409) if a log has only what it shows."""
        if isinstance(self.planned, KeptPlan):
            raise needs_running()
        return self.planned

    @property
    def running(self) -> AnyRun:
        """The run. Raises AnswerError (409) before its first window, and if nothing runs any more."""
        if self.is_logged:
            raise needs_running()
        if self.run is None:
            raise AnswerError(409, _NOT_BEGUN, "ask again soon")
        return self.run

    @property
    def by(self) -> str:
        """Who asks, as changes show it."""
        return self.caller.said(self.get("who"))

    def get(self, name: str) -> Any:
        """A parameter, None if it was not given."""
        return self.values.get(name)

    @property
    def application(self) -> str:
        """The name of the application."""
        return apex.named_plan(self.planned)[0]

    @property
    def logical_plan(self) -> LogicalPlanAnswer:
        """The plan as its author wrote it."""
        return apex.named_plan(self.planned)[1]

    @property
    def publishers(self) -> Mapping[str, Any] | None:
        """What makes results visible, by operator; None: a log does not say it."""
        if self.run is None:
            return None if self.is_logged else {}
        return self.run.publishers

    @property
    def not_begun(self) -> str:
        """Why the run has no window to go back to."""
        if self.is_logged:
            return "A log does not say what its checkpoint keeps: `ridgeline checkpoint describe DIR` does."
        return _NOT_BEGUN

    def operators(self) -> dict[str, LogicalPlanOperatorAnswer]:
        """The logical operators, as the plan has them, by name."""
        return {one["name"]: one for one in self.logical_plan["operators"]}

    def operator(self, name: str) -> LogicalPlanOperatorAnswer:
        """The logical operator of a name. Raises AnswerError (404)."""
        known = self.operators()
        if name not in known:
            raise unknown("logical operator", name, known)
        return known[name]


Handler = Callable[[Call], Any]
Row = TypeVar("Row", bound=Callable[..., Any])
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path and its method. The OpenAPI description is made from `answer`, the type of its answer.

    `handler` returns an answer and may raise AnswerError; it runs in a thread of its own. None: the answer is
    made elsewhere and only described here.
    """

    path: str
    handler: Handler | None
    summary: str
    answer: Any
    path_parameters: tuple[Parameter, ...] = ()
    query: tuple[Parameter, ...] = ()
    media_type: str = "application/json"
    tag: str = "figures"
    open: bool = False
    """Whether it answers without the token."""
    needs_run: bool = False
    """Whether only a running application can answer, as no event log has what it asks for."""
    method: str = "GET"
    body: tuple[Parameter, ...] = ()
    """The names that a POST may have in its body, a JSON object."""
    role: Role | None = None
    """The role that is enough. None: that of reading for GET; all else is refused."""
    is_noted: bool = True
    """Whether the audit log has each POST; not one that only reads, again and again."""
    noted: Callable[[Call], Any] | None = None
    """Gives its values to the audit log, where these are not to be shown as they are."""
    unavailable: str = ""
    """When it answers 503 with the reason; "": never by itself."""

    @property
    def needs(self) -> Role | None:
        """The role that is enough; None: none is, as the endpoint does not say one."""
        return Role.READ if self.role is None and self.method == "GET" else self.role

    def parse(self, request: Request) -> dict[str, Any]:
        """The request's parameters. Raises AnswerError (400) naming the first that is wrong or unknown."""
        known = {parameter.name: parameter for parameter in self.query}
        for name in request.query_params:
            if name not in known:
                raise AnswerError(
                    400,
                    f"`{self.path}` has no parameter `{name[:100]}`",
                    did_you_mean(name, known) if known else "it takes none",
                )
        values = {
            parameter.name: parameter.parse(request.path_params[parameter.name])
            for parameter in self.path_parameters
        }
        return values | {name: known[name].parse(text) for name, text in request.query_params.items()}

    def parse_body(self, document: bytes, media_type: str) -> dict[str, Any]:
        """The values in a request's body. Raises AnswerError naming the first that is wrong or unknown.

        Pages of other sites cannot send JSON without being asked first, which this service refuses.
        """
        given = read_object(document, media_type)
        known = {parameter.name: parameter for parameter in self.body}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise AnswerError(400, f"there is no `{name[:100]}` here", did_you_mean(name, known))
            if value is not None:
                values[name] = known[name].take(value)
        return values


_KINDS: Mapping[Any, str] = {int: "integer", str: "string", bool: "boolean", list: "array", dict: "object"}


@dataclass(frozen=True, slots=True)
class Within:
    """The limits of a number: `Annotated[int | None, Within(1, 1_000)]`."""

    least: int | None = None
    most: int | None = None


def _parameters(handler: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a handler behind the call, by its own names for them.

    A request has them as JSON has names: `window_id` is `windowId`, and `from_` is `from`.
    """
    said, hints = documented(handler)[1], get_type_hints(handler, include_extras=True)
    found = {}
    for name in [*inspect.signature(handler).parameters][1:]:
        bare, *limits = get_args(hints[name]) if get_origin(hints[name]) is Annotated else (hints[name],)
        kinds = [
            get_origin(one) or one for one in (get_args(bare) if isinstance(bare, UnionType) else (bare,))
        ]
        kind = next((_KINDS[one] for one in kinds if one in _KINDS), "any")
        first, *rest = name.rstrip("_").split("_")
        known = limits[0] if limits else Within()
        found[name] = Parameter(
            first + "".join(map(str.title, rest)),
            kind,
            said.get(name, Described()).text,
            known.least,
            known.most,
        )
    return found


class Rows(list[Endpoint]):
    """A table of questions and requests: a row is the function that answers, below a decorator.

    Its parameters behind the call are those of the path, and of the query or the body. They are described by
    the section `Args` of its docstring, its answer by the type that it returns, and itself by the rest.
    """

    def __init__(self, base: str = BASE) -> None:
        super().__init__()
        self._base = base

    def question(self, path: str, **more: Any) -> Callable[[Row], Row]:
        """Add the question GET `path`, below the base. `more`: as of `Endpoint`."""
        return self._adding(path, "query", **more)

    def request(self, path: str, *, role: Role, **more: Any) -> Callable[[Row], Row]:
        """Add the request POST `path`, below the base, for a role. `more`: as of `Endpoint`."""
        return self._adding(path, "body", **{"needs_run": True, "method": "POST", "role": role, **more})

    def _adding(self, path: str, place: str, **fields: Any) -> Callable[[Row], Row]:
        """Add a row. `place`: where parameters are that are not in the path."""

        def add(handler: Row) -> Row:
            own = _parameters(handler)
            names = {one.name: name for name, one in own.items()}
            in_path = [one for one in own.values() if f"{{{one.name}}}" in path]
            others = (*(one for one in own.values() if one not in in_path), *fields.pop(place, ()))

            def answer(call: Call) -> Any:
                given = call.values.items()
                return handler(call, **{names[name]: value for name, value in given if name in names})

            text = documented(handler)[0].partition("\n\nRaises")[0]
            kept = {"tag": path.split("/")[1], "path_parameters": tuple(in_path), place: others, **fields}
            returned = get_type_hints(handler)["return"]
            self.append(Endpoint(self._base + path, answer, " ".join(text.split()), returned, **kept))
            return handler

        return add


def unknown(kind: str, name: str, known: Iterable[str]) -> AnswerError:
    """The error (404) for a name that nothing has."""
    return AnswerError(404, f"there is no {kind} `{name[:100]}`", did_you_mean(name, known))


def found(ask: Callable[[Asked], Answer], asked: Asked) -> Answer:
    """The answer of the watch.

    Raises AnswerError (404) with its words if it does not know what is asked for, (400) if a region is
    missing.
    """
    try:
        return ask(asked)
    except KeyError as error:
        what, _, hint = str(error.args[0]).partition("; ")
        raise AnswerError(404, what, hint) from error
    except RegionNeededError as error:
        what, _, hint = str(error).partition("; ")
        raise AnswerError(400, what, hint) from error
