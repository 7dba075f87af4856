"""Steps that are expressions: SQL text, or expressions of polars."""

from ridgeline.operators.frames._expressions import Expression
from ridgeline.operators.frames.rename import Cast, Drop, Rename
from ridgeline.operators.frames.select import FilterRows, Select, WithColumns
from ridgeline.operators.frames.split import Branch, Split
from ridgeline.operators.frames.transform import Transform

__all__ = [
    "Branch",
    "Cast",
    "Drop",
    "Expression",
    "FilterRows",
    "Rename",
    "Select",
    "Split",
    "Transform",
    "WithColumns",
]
