"""Faults for tests: which ones strike a run, where, drawn from a seed or named."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, get_args

from ridgeline.api.errors import RidgelineError, did_you_mean

Kind = Literal["exception", "kill", "repeat", "delay", "clock", "restart"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_EFFECTS = {
    "exception": "an exception is raised",
    "kill": "the container is killed",
    "repeat": "the attempt is void once it has ended",
    "delay": "the clock goes on",
    "clock": "the wall clock jumps",
    "restart": "the driver is killed",
}
_LATEST_CALL = 4
_JUMPS = (-3600.0, -60.0, -1.5, 0.5, 30.0, 3600.0)
_DELAYS = (0.01, 0.3, 2.0)
_WRITTEN = re.compile(
    r"\w+ w(?P<window>\d+)( (?P<operator>\S+) (?P<moment>begin|end|call (?P<call>\d+))"
    r"( (?P<seconds>-?[\d.]+)s)?)?"
)
_FORM = "write it as `kill w3 counter[1] call 2`, as a run prints it"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: of a kind, in a window, in the turn of an operator.

    `operator`: its title, such as `counter[1]`; "" for the driver. `call`: after so many calls of its
    `process` methods; 0: before its turn; None: at its end. `seconds`: of delays and jumps of the clock.

    Example:
        >>> from ridgeline.testing import Fault
        >>> str(Fault("kill", 3, "counter[1]", call=2))
        'kill w3 counter[1] call 2'
        >>> Fault.parse("delay w0 source begin 0.5s").seconds
        0.5
    """

    kind: Kind
    window: int
    operator: str = ""
    call: int | None = None
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.kind == "restart":
            return f"restart w{self.window}"
        moment = "end" if self.call is None else f"call {self.call}" if self.call else "begin"
        text = f"{self.kind} w{self.window} {self.operator} {moment}"
        return f"{text} {self.seconds:g}s" if self.seconds else text

    @property
    def told(self) -> str:
        """The fault and its effect, as text."""
        what = f"{_EFFECTS[self.kind]}{f' by {self.seconds:g} s' if self.seconds else ''}"
        return f"fault `{self}`: {what}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read what `str` of a fault gives. Raises RidgelineError."""
        kind = text.partition(" ")[0]
        if kind not in KINDS:
            raise RidgelineError(f"`{text}` begins with no kind of fault; {did_you_mean(kind, KINDS)}")
        found = _WRITTEN.fullmatch(text)
        if found is None or (found["operator"] is None) != (kind == "restart"):
            raise RidgelineError(f"`{text}` is no fault; {_FORM}")
        call = None if found["call"] is None else int(found["call"])
        call = 0 if found["moment"] == "begin" else call
        return cls(kind, int(found["window"]), found["operator"] or "", call, float(found["seconds"] or 0))


class Faults:
    """Faults that strike a run in process: `run_local(app, faults=Faults(seed=7))`.

    Results must be those of a run without faults. In each window each partition is struck with the
    probability `rate`, each fault at most once. A window has at most two faults that fail it.

    - `exception`: a callback raises, after some of its tuples
    - `kill`: the container is lost with all that it has in memory
    - `repeat`: the attempt is void once it has ended, and runs again
    - `delay`: the clock advances while the operator works
    - `clock`: the wall clock of the container jumps, forward or back
    - `restart`: the driver is killed and another one continues from the checkpoint

    `seed` decides which, where and when. `kinds`: those that may strike. `only` names single faults instead,
    as a run prints them. Operators that read the clock give other results after `delay` and `clock`: leave
    them out then.

    After a run `struck` has the faults that did, in order.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CollectorSink, Faults, ListInput, run_local
        >>> class Number(NamedTuple):
        ...     value: int
        >>> app = Application("numbers")
        >>> numbers = app.add_operator("numbers", ListInput(Number, [(1,), (2,)]))
        >>> sink = app.add_operator("sink", CollectorSink(Number))
        >>> app.add_stream("numbers", numbers.output, sink.input)
        >>> run = run_local(app, faults=Faults(only=["kill w0 sink call 1"]))
        fault `kill w0 sink call 1`: the container is killed
        >>> run.collected("sink")
        [Number(value=1), Number(value=2)]
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        rate: float = 0.1,
        kinds: Iterable[Kind] = KINDS,
        only: Iterable[str] | None = None,
        quiet: bool = False,
    ) -> None:
        if not 0 <= rate <= 1:
            raise RidgelineError(f"`rate` is a probability from 0 to 1; got {rate}")
        self.seed = seed
        self.rate = rate
        self.kinds = tuple(kinds)
        self.quiet = quiet
        self.struck: list[Fault] = []
        self.only = None if only is None else tuple(map(Fault.parse, only))
        for kind in self.kinds:
            if kind not in KINDS:
                raise RidgelineError(f"there is no kind of fault `{kind}`; {did_you_mean(kind, KINDS)}")

    def __repr__(self) -> str:
        if self.only is not None:
            return f"Faults(only={[str(fault) for fault in self.only]})"
        return f"Faults(seed={self.seed}, rate={self.rate:g})"

    def planned(self, window: int, operator: str) -> Sequence[Fault]:
        """The faults of an operator's partition, by its title, in a window; of the driver for ""."""
        if self.only is not None:
            return [one for one in self.only if one.window == window and one.operator == operator]
        random = Random(f"{self.seed} {window} {operator}")  # noqa: S311  not a secret
        kinds = [kind for kind in self.kinds if (kind == "restart") == (not operator)]
        if not kinds or random.random() >= self.rate:
            return ()
        kind = random.choice(kinds)
        if kind == "restart":
            return (Fault(kind, window),)
        call = random.choice([0, *range(1, _LATEST_CALL + 1), None])
        if kind == "repeat" or (kind == "exception" and call == 0):
            call = None
        seconds = random.choice(_JUMPS) if kind == "clock" else random.choice(_DELAYS)
        return (Fault(kind, window, operator, call, seconds if kind in {"clock", "delay"} else 0.0),)
