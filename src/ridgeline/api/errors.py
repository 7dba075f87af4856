"""Every error that a user of Ridgeline can meet. Texts say: what is wrong; what was found; what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


class RidgelineError(Exception):
    """Base class of all errors that Ridgeline raises on purpose."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an application.

    `where` is the operator, port, stream or attribute (`balances.payments`); `what` is what is wrong; `remedy` is what to do.
    """

    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"`{self.where}`: {self.what}; {self.remedy}"


class ValidationError(RidgelineError):
    """The application is not valid: all of its faults at once, in `faults`."""

    def __init__(self, application: str, faults: Sequence[Fault]) -> None:
        self.application = application
        self.faults = tuple(faults)
        noun = "fault" if len(self.faults) == 1 else "faults"
        lines = [f"application `{application}` is not valid; {len(self.faults)} {noun}:"]
        super().__init__("\n".join([*lines, *(f"  - {fault}" for fault in self.faults)]))

    def __reduce__(self) -> tuple[type[ValidationError], tuple[str, tuple[Fault, ...]]]:
        return type(self), (self.application, self.faults)


class SchemaError(RidgelineError):
    """A type that cannot be the schema of a port or state, or a value that does not fit its schema."""


class StateError(RidgelineError):
    """State that was not declared, or that cannot be restored."""


class CheckpointError(RidgelineError):
    """The checkpoint folder cannot be used: in use by another driver, unreadable, unwritable, or of another application."""


class FencedError(CheckpointError):
    """Another driver has taken over the checkpoint folder; this one must not write any more."""


class ContainerAbortError(RidgelineError):
    """A test asked for the death of a container (`ABORT` in a list input). The window is replayed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt at a window failed: picklable, so that it travels from a container to STRAM.

    `callback` is what ran (`process`, `emit_tuples`, `end_window`, ...), `tuple` the shortened text of the tuple being processed or "".
    """

    application: str
    operator: str
    partition: int
    window_id: int
    callback: str
    error: str
    tuple: str = ""
    traceback: str = ""

    def __str__(self) -> str:
        who = f"operator `{self.operator}` (partition {self.partition}) of " if self.operator else ""
        text = f"{who}application `{self.application}` failed in window {self.window_id} in `{self.callback}`: {self.error}"
        return text + (f"; the tuple was {self.tuple}" if self.tuple else "")

    def to_dict(self) -> dict[str, str | int]:
        """As a dictionary of plain values."""
        return asdict(self)


class OperatorError(RidgelineError):
    """An operator's callback raised; `failure` names application, operator, partition, window and tuple."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))

    def __reduce__(self) -> tuple[type[OperatorError], tuple[Failure]]:
        return type(self), (self.failure,)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean `x`?` for the nearest known name, else the list of what is known."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return "known are " + ", ".join(f"`{known_name}`" for known_name in names) if names else "there are none"


def shorten(value: object, limit: int = 200) -> str:
    """`repr(value)`, cut in the middle if it is longer than `limit` characters."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  a broken __repr__ must not hide the error that is being told
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
