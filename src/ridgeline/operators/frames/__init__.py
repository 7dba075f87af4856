"""Steps that are expressions: SQL text, or expressions of polars."""

from ridgeline.operators.frames._expressions import Expression
from ridgeline.operators.frames.filter_rows import FilterRows
from ridgeline.operators.frames.rename import Cast, Drop, Rename
from ridgeline.operators.frames.select import Select
from ridgeline.operators.frames.split import Branch, Split
from ridgeline.operators.frames.transform import Transform
from ridgeline.operators.frames.with_columns import WithColumns

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
