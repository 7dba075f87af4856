"""Errors that Ridgeline raises. Their texts say: what is wrong; what was found; what to do."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ridgeline.api.support.secrets.addresses import mask_addresses

TEXT_LIMIT = 4_000
"""Characters of an error's text that are kept."""
TRACEBACK_LIMIT = 16_000
"""Characters of a traceback that are kept."""
_LEFT_OUT_CHARACTERS = 60
_MOST_NAMES = 50
"""Names that are listed where none is near."""
_TUPLE = "; the tuple was "
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


class RidgelineError(Exception):
    """Base class of all errors that Ridgeline raises on purpose.

    Example:
        >>> from ridgeline import RidgelineError, SchemaError, ValidationError
        >>> issubclass(SchemaError, RidgelineError), issubclass(ValidationError, RidgelineError)
        (True, True)
    """

    def __str__(self) -> str:
        """The text without the keys of addresses: it ends on terminals, in logs, answers and events."""
        return mask_addresses(super().__str__())


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an application.

    `where` is the operator, port, stream or attribute (`balances.payments`); `what` is what is wrong;
    `remedy` is what to do.

    Example:
        >>> from ridgeline import Fault
        >>> str(Fault("sum.partitions", "must be at least 1; got 0", "give a greater number"))
        '`sum.partitions`: must be at least 1; got 0; give a greater number'
    """

    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"`{self.where}`: {self.what}; {self.remedy}"


class FaultError(Exception):
    """What is wrong, and the remedy; whoever catches it knows of what it is a fault."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}; {remedy}")
        self.what = what
        self.remedy = remedy


class StructureError(FaultError, TypeError):
    """Parts of an application do not fit together: raised where they are added, at the author's line."""


class ValidationError(RidgelineError):
    """The application is not valid; `faults` has all of its faults.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.plan import validate
        >>> validate(Application("payments"))
        Traceback (most recent call last):
        ridgeline.api.errors.ValidationError: application `payments` is not valid; 1 fault:
          - `payments`: the application has no operators; add one with `app.add_operator(name, operator)`
    """

    def __init__(self, application: str, faults: Sequence[Fault]) -> None:
        self.application = application
        self.faults = tuple(faults)
        noun = "fault" if len(self.faults) == 1 else "faults"
        lines = [f"application `{application}` is not valid; {len(self.faults)} {noun}:"]
        super().__init__("\n".join([*lines, *(f"  - {fault}" for fault in self.faults)]))

    def __reduce__(self) -> tuple[type[ValidationError], tuple[str, tuple[Fault, ...]]]:
        return type(self), (self.application, self.faults)


class Faults(list[Fault]):
    """The faults of an application, in the order in which they were found."""

    def add(self, where: str, what: str, remedy: str) -> None:
        """Add a fault."""
        self.append(Fault(where, what, remedy))

    @contextlib.contextmanager
    def noting(self, where: str, before: str = "") -> Iterator[None]:
        """Add a `FaultError` that is raised. `before`: what its text begins with."""
        try:
            yield
        except FaultError as error:
            self.add(where, before + error.what, error.remedy)

    def check(self, application: str) -> None:
        """Raise ValidationError if there are any."""
        if self:
            raise ValidationError(application, self)


class SchemaError(RidgelineError):
    """A type that cannot be the schema of a port or state, or a value that does not fit its schema.

    Example:
        >>> from ridgeline import Schema
        >>> Schema(int)
        Traceback (most recent call last):
        ridgeline.api.errors.SchemaError: <class 'int'> cannot be a schema; give a NamedTuple, ...
    """


class StateError(RidgelineError):
    """State that was not declared or cannot be restored, or a value that is not of the state's type.

    Example:
        >>> from ridgeline import KeyedState, Operator
        >>> class Count(Operator):
        ...     totals = KeyedState(int, key=str)
        >>> Count().totals["word"] = "one"
        Traceback (most recent call last):
        ridgeline.api.errors.StateError: `totals` holds values of type `int`; got 'one', a `str`, ...
    """

    operator: str = ""
    """Whose state it is, as failures name it; "" if that is not known."""


class ChangeError(RidgelineError):
    """A change of a running application is refused: nothing of it is applied.

    Example:
        >>> from ridgeline import ChangeError
        >>> raise ChangeError("there is no operator `cuont`; did you mean `count`?")
        Traceback (most recent call last):
        ridgeline.api.errors.ChangeError: there is no operator `cuont`; did you mean `count`?
    """


class ApplicationKilledError(RidgelineError):
    """The application was killed on request: nothing of the windows under way counts."""


class CheckpointError(RidgelineError):
    """The checkpoint folder cannot be used.

    It is in use by another driver, unreadable, unwritable, or of another application.

    Example:
        >>> from ridgeline import CheckpointError, RidgelineError
        >>> issubclass(CheckpointError, RidgelineError)
        True
    """


class UntrustedError(RidgelineError):
    """A file or folder that would be run as code could have been written by another user."""


class PackageError(RidgelineError):
    """A package of applications cannot be used: it is damaged, would do harm, or does not fit here."""


class NameTakenError(RidgelineError):
    """An application of that name lives in the same store."""


class FencedError(CheckpointError):
    """Another driver has taken over the checkpoint folder; this one must not write any more."""


class ContainerAbortError(RidgelineError):
    """A test ended a container by `ABORT` in a list input. The window is replayed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt at a window failed: picklable, since a container sends it to STRAM.

    `callback` is what ran (`process`, `emit_tuples`, `end_window`, ...). `tuple` is the shortened text of the
    tuple being processed, or "". `raised`: the operator's own code raised the error, so the same tuple is
    expected to fail again. `cluster`: no operator is to blame (a host, a network, an executor was lost), so
    it counts as none of the `recovery_attempts`.

    Example:
        >>> from ridgeline import Failure
        >>> failure = Failure("payments", "check", 0, 7, "process", "ValueError: no", tuple="(1, -5)")
        >>> failure.operator, failure.window_id, failure.tuple
        ('check', 7, '(1, -5)')
    """

    application: str
    operator: str
    partition: int
    window_id: int
    callback: str
    error: str
    tuple: str = ""
    traceback: str = ""
    raised: bool = False
    cluster: bool = False

    def __post_init__(self) -> None:
        """Mask secrets in the error and the traceback, and cap the texts."""
        from ridgeline.api.support.masking import masked_and_capped  # which imports this module

        for name, limit in (("error", TEXT_LIMIT), ("tuple", TEXT_LIMIT), ("traceback", TRACEBACK_LIMIT)):
            cut = capped if name == "tuple" else masked_and_capped
            object.__setattr__(self, name, cut(getattr(self, name), limit))

    def same_as(self, other: Failure | None) -> bool:
        """True if the operator's code failed in the same way on the same tuple.

        Addresses of objects in the texts are not compared.
        """
        return other is not None and self.raised and other.raised and self.cause == other.cause

    @property
    def cause(self) -> Sequence[Any]:
        """The parts of the failure that `same_as` compares."""
        texts = (_ADDRESS.sub("", self.error), _ADDRESS.sub("", self.tuple))
        return self.operator, self.partition, self.window_id, self.callback, *texts

    def __str__(self) -> str:
        who = f"operator `{self.operator}` (partition {self.partition}) of " if self.operator else ""
        when = f"in window {self.window_id}" if self.window_id >= 0 else "before its first window"
        text = f"{who}application `{self.application}` failed {when} in `{self.callback}`: {self.error}"
        return text + (f"{_TUPLE}{self.tuple}" if self.tuple else "")

    def to_dict(self) -> dict[str, str | int]:
        """As a dictionary of plain values, which `Failure(**values)` takes."""
        return asdict(self)


class OperatorError(RidgelineError):
    """An operator's callback raised; `failure` names application, operator, partition, window and tuple.

    Example:
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Map
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> app = Application("numbers")
        >>> source = app.add_operator("source", ListInput(object, ["one"]))
        >>> parse = app.add_operator("parse", Map(int, schema=object))
        >>> sink = app.add_operator("sink", CollectorSink(object))
        >>> app.add_stream("texts", source.output, parse.data)
        >>> app.add_stream("numbers", parse.output, sink.input)
        >>> run_local(app)
        Traceback (most recent call last):
        ridgeline.api.errors.OperatorError: operator `parse` (partition 0) of application `numbers` failed in
        window 0 in `process of port data`: ValueError: ...; the tuple was 'one'
    """

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))

    def __reduce__(self) -> tuple[type[OperatorError], tuple[Failure]]:
        return type(self), (self.failure,)


class CallbackInterrupt(BaseException):
    """A callback raised a BaseException that is no Exception, such as KeyboardInterrupt.

    `__cause__` is what it raised; `failure` as in OperatorError. An in-process run raises the cause to its
    caller. A worker reports it like any other failure of the operator.
    """

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean `x`?` for the nearest known name, else the list of known names."""
    names = sorted(set(known))
    close = nearest(name, names)
    if close is not None:
        return f"did you mean `{close}`?"
    if not names:
        return "there are none"
    return f"known are {listed(names, _MOST_NAMES)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a name, None if none is.

    >>> nearest("partitons", ["partitions", "parts"]), nearest("x", ["partitions"])
    ('partitions', None)
    """
    return next(iter(difflib.get_close_matches(name, known, 1)), None)


def shorten(value: object, limit: int = 200) -> str:
    """`repr(value)`, cut in the middle if it is longer than `limit` characters."""
    return cut_in_the_middle(safe_repr(value), limit)


def safe_repr(value: object) -> str:
    """`repr(value)`; a broken one does not hide the error that is being reported."""
    try:
        return _encodable(repr(value))
    except BaseException as error:  # noqa: BLE001
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"


def cut_in_the_middle(text: str, limit: int) -> str:
    """The text, or its head and tail if it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def capped(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text in at most `limit` (at least 80) characters.

    Of a longer text the head and the tail, with the number of characters left out between them. Characters
    that cannot be encoded (half of a surrogate pair) are written as escapes.
    """
    if len(text) <= limit:
        whole = _encodable(text)
        return whole if len(whole) <= limit else capped(whole, limit)
    room = limit - _LEFT_OUT_CHARACTERS
    head, tail = room - room // 4, room // 4
    middle = f" ... ({len(text) - room:,} characters left out) ... "
    return _encodable(text[:head])[:head] + middle + _encodable(text[len(text) - tail :])[-tail:]


def described(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    """`ValueError: text` of an exception, without secrets, capped; its `__str__` may raise."""
    from ridgeline.api.support.masking import masked_and_capped  # which imports this module

    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as broken:  # noqa: BLE001  the error being reported comes first
        text = f"<its text cannot be had: {type(broken).__name__}>"
    if isinstance(error, ModuleNotFoundError) and error.name:
        text += f"; {_missing(error.name)}"
    return masked_and_capped(f"{name}: {text}" if text else name, limit)


def _missing(module: str) -> str:
    """The remedy for a module that cannot be imported where an operator runs."""
    top = module.partition(".")[0]
    return (
        f"install the package that has `{top}` where operators run, "
        f"put `{top}` beside the application's file and import it by an `import` statement, "
        f"or name its file in `--conf spark.submit.pyFiles=...`"
    )


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def listed(names: Iterable[str], most: int | None = None) -> str:
    """Names in backticks: `a`, `b`. Of more than `most` it says how many there are beside them.

    >>> listed(["a", "b", "c"], 2)
    '`a`, `b` and 1 more'
    """
    every = list(names)
    more = f" and {len(every) - most:,} more" if most is not None and len(every) > most else ""
    return ", ".join(f"`{name}`" for name in every[:most]) + more


def without_tuple(text: str) -> str:
    """The text of an error without the tuple at its end, for systems that are to get no data.

    >>> without_tuple("operator `add` failed: ValueError: no; the tuple was Order(id=7)")
    'operator `add` failed: ValueError: no'
    """
    return text.partition(_TUPLE)[0]
