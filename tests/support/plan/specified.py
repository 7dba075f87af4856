"""Operators that specifications of tests name."""

import dataclasses
import datetime as dt
import decimal
import enum
from typing import Any

from pydantic import Field, SecretStr

from ridgeline import InputOperator, InputPort, Operator, OutputPort


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Limits:
    low: int = 0
    high: float = 1.0


class Source(InputOperator):
    output = OutputPort(object)

    count: int = 3
    text: str = "x"
    ratio: float | None = 0.5
    names: list[str] = Field(default_factory=list)
    options: dict[str, Any] = Field(default_factory=dict)
    color: Color = Color.RED
    limits: Limits = Limits()
    pair: tuple[int, ...] = ()
    when: dt.datetime | None = None
    price: decimal.Decimal = decimal.Decimal(1)
    anything: Any = None
    password: str = ""
    secret: SecretStr | None = None


class Step(Operator):
    data = InputPort(object)
    output = OutputPort(object)
    second = OutputPort(object, optional=True)

    function: Any = None
    limit: int = Field(10, ge=0)

    @data.process
    def send(self, tuple):
        self.output.emit(tuple)


class Sink(Operator):
    data = InputPort(object)
    other = InputPort(object, optional=True)

    name: str = Field(min_length=1)

    @data.process
    @other.process
    def drop(self, tuple):
        pass


def double(value):
    return value * 2


class Outer:
    class Inner(Operator):
        data = InputPort(object)

        @data.process
        def drop(self, tuple):
            pass


class Odd(Operator):
    """Made with something that is no property."""

    data = InputPort(object)

    def __init__(self, start):
        super().__init__()
        self.start = start


class Picky(Operator):
    data = InputPort(object)
    low: int = 0

    def __post_init__(self):
        if self.low > 5:
            raise ValueError("`low` must not be above 5")
