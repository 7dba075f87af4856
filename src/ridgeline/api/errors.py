"""Every error that a user of Ridgeline can meet. Texts say: what is wrong; what was found; what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

TEXT_LIMIT = 4_000
"""Characters of an error's text that are kept."""
TRACEBACK_LIMIT = 16_000
"""Characters of a traceback that are kept."""
_LEFT_OUT_CHARACTERS = 60
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


class RidgelineError(Exception):
    """Base class of all errors that Ridgeline raises on purpose."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with an application.

    `where` is the operator, port, stream or attribute (`balances.payments`); `what` is what is wrong;
    `remedy` is what to do.
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


class UntrustedError(RidgelineError):
    """A file or folder whose content would become code could have been written by somebody else."""


class FencedError(CheckpointError):
    """Another driver has taken over the checkpoint folder; this one must not write any more."""


class ContainerAbortError(RidgelineError):
    """A test asked for the death of a container (`ABORT` in a list input). The window is replayed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt at a window failed: picklable, so that it travels from a container to STRAM.

    `callback` is what ran (`process`, `emit_tuples`, `end_window`, ...), `tuple` the shortened text of the
    tuple being processed or "". `raised`: the operator's own code raised it, so the same tuple is expected to
    fail again.
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

    def __post_init__(self) -> None:
        """Cap the texts, and mask the secrets of drivers and clients in them."""
        from ridgeline.api.masking import mask_text  # stands upon this module

        for name, limit in (("error", TEXT_LIMIT), ("tuple", TEXT_LIMIT), ("traceback", TRACEBACK_LIMIT)):
            text = capped(getattr(self, name), limit)
            object.__setattr__(self, name, text if name == "tuple" else mask_text(text))

    def same_as(self, other: Failure | None) -> bool:
        """True if the operator's code failed in the same way on the same tuple.

        Addresses of objects in the texts do not count.
        """
        return other is not None and self.raised and other.raised and self.cause == other.cause

    @property
    def cause(self) -> Sequence[Any]:
        """What failed, on which tuple and how; equal for failures that are the same."""
        texts = (_ADDRESS.sub("", self.error), _ADDRESS.sub("", self.tuple))
        return self.operator, self.partition, self.window_id, self.callback, *texts

    def __str__(self) -> str:
        who = f"operator `{self.operator}` (partition {self.partition}) of " if self.operator else ""
        text = f"{who}application `{self.application}` failed in window {self.window_id} in `{self.callback}`: {self.error}"
        return text + (f"; the tuple was {self.tuple}" if self.tuple else "")

    def to_dict(self) -> dict[str, str | int]:
        """As a dictionary of plain values, which `Failure(**values)` takes."""
        return asdict(self)


class OperatorError(RidgelineError):
    """An operator's callback raised; `failure` names application, operator, partition, window and tuple."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))

    def __reduce__(self) -> tuple[type[OperatorError], tuple[Failure]]:
        return type(self), (self.failure,)


class CallbackInterrupt(BaseException):
    """A callback raised what is no Exception (KeyboardInterrupt and the like), its cause; `failure` as of an OperatorError.

    In process the cause goes on to the caller; in a worker it is the operator's failure as any other.
    """

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


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
        text = _encodable(repr(value))
    except BaseException as error:  # noqa: BLE001  a broken __repr__ must not hide the error that is being told
        text = f"<{type(value).__name__} whose repr raised {type(error).__name__}>"
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def capped(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text in at most `limit` (at least 80) characters: head, tail, and how many characters are left out between them.

    What cannot be encoded (half of a surrogate pair) is written as an escape.
    """
    if len(text) <= limit:
        whole = _encodable(text)
        return whole if len(whole) <= limit else capped(whole, limit)
    room = limit - _LEFT_OUT_CHARACTERS
    head, tail = room - room // 4, room // 4
    middle = f" ... ({len(text) - room:,} characters left out) ... "
    return _encodable(text[:head])[:head] + middle + _encodable(text[len(text) - tail :])[-tail:]


def described(error: BaseException, limit: int = TEXT_LIMIT) -> str:
    """`ValueError: text` of an exception, whatever its `__str__` does; capped."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as broken:  # noqa: BLE001  the error that is being told comes first
        text = f"<its text cannot be had: {type(broken).__name__}>"
    if isinstance(error, ModuleNotFoundError) and error.name:
        text += f"; {_missing(error.name)}"
    return capped(f"{name}: {text}" if text else name, limit)


def _missing(module: str) -> str:
    """What to do about a module that an operator does not find where it runs."""
    top = module.partition(".")[0]
    return (
        f"install the package that has `{top}` where operators run, put `{top}` beside the application's file and import it by an "
        f"`import` statement, or name its file in `--conf spark.submit.pyFiles=...`"
    )


def _encodable(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
