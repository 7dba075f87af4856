"""Random edits of the random applications: most can be made, some cannot."""

from typing import Any

from hypothesis import strategies as st

from ridgeline.api import Application
from ridgeline.plan.edits import (
    AddOperator,
    AddSink,
    AddStream,
    Edit,
    RemoveOperator,
    RemoveSink,
    RemoveStream,
    RenameOperator,
    Repartition,
    ReplaceOperator,
    SetAttribute,
)

_PORTS = ["keyed", "also_keyed", "in_turn", "followed"]
CLASSES = ("support.plan.random_applications.Step", "support.plan.random_applications.Root")


@st.composite
def edits(draw: st.DrawFn, app: Application, most: int = 5) -> list[Edit]:
    """A few edits of an application, in order; the names are those that the edits before leave."""
    specs = [{"class": one} for one in CLASSES]
    names = [added.name for added in app.operators]
    streams = {
        stream.name: [(_name(app, sink.operator), sink.name) for sink in stream.sinks]
        for stream in app.streams
    }
    found: list[Edit] = []
    for number in range(draw(st.integers(0, most))):
        kind = draw(st.integers(0, 9))
        one = draw(st.sampled_from(names or ["nobody"]))
        stream = draw(st.sampled_from([*streams] or ["nothing"]))
        port = draw(st.sampled_from(_PORTS))
        edit: Any
        if kind == 0:
            edit = Repartition(one, draw(st.integers(1, 4)))
        elif kind == 1:
            edit = SetAttribute(one, "recovery_attempts", draw(st.integers(1, 5)))
        elif kind == 2:
            edit = AddOperator(f"new{number}", draw(st.sampled_from(specs)))
            names.append(edit.name)
        elif kind == 3:
            edit = RemoveOperator(one)
            names = [name for name in names if name != one]
        elif kind == 4:
            edit = ReplaceOperator(one, draw(st.sampled_from(specs)))
        elif kind == 5:
            edit = RenameOperator(one, draw(st.sampled_from([f"other{number}", *names])))
            names = [edit.new if name == one else name for name in names]
        elif kind == 6:
            other = draw(st.sampled_from(names or ["nobody"]))
            edit = AddStream(f"more{number}", f"{one}.out", (f"{other}.{port}",))
        elif kind == 7:
            edit = RemoveStream(stream)
        elif kind == 8:
            edit = AddSink(stream, f"{one}.{port}")
        else:
            sinks = streams.get(stream) or [("nobody", "keyed")]
            edit = RemoveSink(stream, ".".join(draw(st.sampled_from(sinks))))
        found.append(edit)
    return found


def _name(app: Application, operator: object) -> str:
    return next(added.name for added in app.operators if added.operator is operator)
