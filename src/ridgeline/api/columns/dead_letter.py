"""The dead letter of a tuple that was left out: a class that any output operator can take."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

NAME = "dead_letters"
"""The name of the port of every operator where its dead letters leave it."""


class DeadLetter(NamedTuple):
    """A tuple that an operator with `on_error=SKIP` left out, and why.

    `tuple` is the tuple as text, `error` the exception, `traceback` the end of its traceback. `port` is where
    the tuple came in, `time` when it failed. Texts have at most a few thousand characters; secrets in them
    are masked.

    Example:
        >>> from ridgeline import Application, DeadLetter, OnError
        >>> from ridgeline.operators import Map
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> app = Application("numbers")
        >>> texts = app.add_operator("texts", ListInput(object, ["1", "two"]))
        >>> parse = app.add_operator("parse", Map(int, schema=object), on_error=OnError.SKIP)
        >>> numbers = app.add_operator("numbers", CollectorSink(object))
        >>> app.add_stream("texts", texts.output, parse.data)
        >>> app.add_stream("numbers", parse.output, numbers.input)
        >>> app.dead_letters(CollectorSink(DeadLetter))
        >>> [letter] = run_local(app).collected("dead_letters")
        >>> letter.tuple, letter.operator, letter.port, letter.window
        ("'two'", 'parse', 'data', 0)
    """

    window: int
    operator: str
    partition: int
    port: str
    tuple: str
    error: str
    traceback: str
    time: datetime
