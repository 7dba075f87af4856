"""Expressions as data: SQL text, or a polars expression in its serialised form; and what its nodes say."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core.core_schema import CoreSchema, no_info_plain_validator_function

from ridgeline.api.errors import SchemaError, shorten

if TYPE_CHECKING:
    import polars as pl

REMEDY = "install polars: `pip install 'ridgeline[frames]'`"
_ACROSS = frozenset(
    {"Agg", "Over", "Rolling", "Len", "Sort", "SortBy", "Slice", "Filter", "Explode", "Gather", "Window"}
)
"""Nodes of expressions that read or make other rows than the one they are for."""
_CODE = frozenset(
    {"AnonymousFunction", "PythonUdf", "PythonFunction", "AnonymousAgg", "AnonymousStreamingAgg"}
)
"""Nodes of expressions that hold functions of Python."""
_PICKLED = list(b"PLPY")
"""How polars begins what it has pickled."""
_SEARCHES = {"IsIn": 1, "Replace": 2, "ReplaceStrict": 2}
"""By function that looks for values in others, how many of its arguments after the first these are."""
_NAMED = frozenset({"Append", "Repeat", "SelectFields", *_SEARCHES})
"""Functions that are known by their names: polars says nothing of them, or not enough."""


_WORDS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \bas\s+\w+ | \w+\s*\( | (?<![.\w])(?P<word>[^\W\d]\w*)""",
    re.VERBOSE | re.IGNORECASE,
)
"""Texts, quoted names, names after `as` and of functions; and words that may be columns."""


@dataclass(frozen=True)
class Expression:
    """A polars expression as data: `Expression.of(pl.col("cents") / 100)`.

    Example:
        >>> import polars as pl
        >>> from ridgeline.operators import Expression
        >>> Expression.of(pl.col("cents") > 5)
        Expression([(col("cents")) > (dyn int: 5)])
    """

    polars: str
    """The JSON that polars writes of it; the base64 of its bytes for one that has no JSON."""

    @classmethod
    def of(cls, expression: pl.Expr) -> Expression:
        """The data of an expression."""
        try:
            return cls(str(expression.meta.serialize(format="json")))
        except Exception:  # noqa: BLE001  of polars, which has no class for it
            return cls(base64.b64encode(expression.meta.serialize(format="binary")).decode())

    def read(self) -> pl.Expr:
        """The expression. Raises SchemaError for text that is none, and without polars."""
        return _read(self.polars)

    def __repr__(self) -> str:
        try:
            return f"Expression({self.read()})"
        except SchemaError:
            return f"Expression({shorten(self.polars)})"


@lru_cache(maxsize=1024)
def _read(text: str) -> pl.Expr:
    polars = imported()
    try:
        if text.startswith(("{", '"', "[")):
            return polars.Expr.deserialize(StringIO(text), format="json")
        return polars.Expr.deserialize(BytesIO(base64.b64decode(text)), format="binary")
    except Exception as error:  # noqa: BLE001  of polars
        raise SchemaError(
            f"{shorten(text)} is no polars expression: {first_line(error)}; write it again"
        ) from None


def imported() -> Any:
    """The module polars. Raises SchemaError if it is not installed."""
    try:
        import polars as pl
    except ImportError:
        raise SchemaError(f"expressions need polars, which is not installed; {REMEDY}") from None
    return pl


def as_data(value: Any) -> Any:
    """An expression as a property: SQL text, a function, or an `Expression`, which one of polars becomes.

    Raises ValueError for anything else.
    """
    if type(value).__module__.partition(".")[0] == "polars" and hasattr(value, "meta"):
        return Expression.of(value)
    if isinstance(value, Mapping) and set(value) == {"polars"}:
        if _holds_code(value["polars"]):
            raise ValueError("has a function of Python, which would run as code; give it in the application")
        return Expression(str(value["polars"]))
    if isinstance(value, (str, Expression)) or callable(value):
        return value
    raise ValueError("is no expression; give `pl.col(...)`, SQL text, or `pl.lit(...)` for a constant")


def _holds_code(given: object) -> bool:
    """Whether an expression that a document gives may hold a pickled function: polars would load it."""
    try:
        parts: list[object] = [json.loads(str(given))]
    except (ValueError, RecursionError):
        return True  # in binary form: it has no other one, or hides something
    for part in parts:
        if isinstance(part, dict):
            parts += [*part, *part.values()]
        elif isinstance(part, list):
            if part[: len(_PICKLED)] == _PICKLED:
                return True
            parts += [one for one in part if not isinstance(one, int)]
        elif isinstance(part, str) and (part in _CODE or part.startswith("PLPY")):
            return True
    return False


def data_where_possible(value: Any) -> Any:
    """As `as_data`; what is no expression stays, and is a fault when the application is validated."""
    try:
        return as_data(value)
    except ValueError:
        return value


if TYPE_CHECKING:
    Given: TypeAlias = Any
    """An expression as a property: SQL text, an `Expression`, or a function that takes a tuple."""
else:

    class Given:
        """An expression as a property: `predicate: Given`."""

        @classmethod
        def __get_pydantic_core_schema__(cls, source: object, handler: object) -> CoreSchema:
            """Validate a value of the property: see `as_data`."""
            return no_info_plain_validator_function(as_data)


def resolved(value: Any, columns: Container[str]) -> pl.Expr:
    """The polars expression of a property: a column's name stands for the column, other text is SQL.

    Raises SchemaError for text that is no SQL expression.
    """
    polars = imported()
    if isinstance(value, Expression):
        return value.read()
    if not isinstance(value, str):
        raise SchemaError(f"{shorten(value)} is no expression; give `pl.col(...)`, or SQL text")
    if value in columns:
        return polars.col(value)
    failure: BaseException | None = None
    for text in dict.fromkeys((value, _quoted(value, columns))):
        try:
            return polars.sql_expr(text)
        except BaseException as error:  # noqa: BLE001  of polars
            refuse_other(error)
            failure = failure or error
    remedy = "`with_columns` keeps all columns" if value == "*" else "correct it, or give `pl.col(...)`"
    raise SchemaError(f"{shorten(value)} is no SQL expression: {first_line(failure)}; {remedy}") from None


def _quoted(text: str, columns: Container[str]) -> str:
    """SQL text with the columns in quotation marks, as words such as `user` and `order` need them."""

    def quote(found: re.Match[str]) -> str:
        word = found["word"]
        return f'"{word}"' if word is not None and word in columns else found[0]

    return _WORDS.sub(quote, text)


def refuse_other(error: BaseException) -> None:
    """Raise an error again that is neither an `Exception` nor a panic of polars, which is none."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


def first_line(error: BaseException | None) -> str:
    """The text of an error of polars, without its plans and hints."""
    return str(error).partition("\n")[0].strip()


def tree(expression: pl.Expr) -> Any:
    """The nodes of an expression, as polars writes them in JSON; None if it cannot."""
    try:
        return json.loads(expression.meta.serialize(format="json"))
    except Exception:  # noqa: BLE001  as in `Expression.of`
        return None


def guesses_formats(node: Any) -> bool:
    """True if texts become times by a format that is not given. `node`: see `tree`."""
    if isinstance(node, list):
        return any(map(guesses_formats, node))
    if not isinstance(node, dict):
        return False
    options = node.get("Strptime")
    if isinstance(options, list) and any(
        isinstance(one, dict) and one.get("format") is None for one in options
    ):
        return True
    return guesses_formats(list(node.values()))


def reads_other_rows(node: Any) -> bool:  # noqa: PLR0911  a case each
    """True if a result depends on other rows of the batch than its own, or there is not one for each row.

    `node`: see `tree`. Functions of the author are taken at their word.
    """
    if isinstance(node, list):
        return any(map(reads_other_rows, node))
    if not isinstance(node, dict):
        return node == "Len"
    ((kind, part),) = node.items()
    if kind == "Function":
        own = [one for one in part["input"] if "Literal" not in one]
        return _is_across(part) or reads_other_rows(own)
    if kind == "Literal":
        return "Series" in part
    if kind in ("Column", "Selector"):
        return False
    if kind in ("Eval", "Cast", "RenameAlias"):
        return reads_other_rows(part["expr"])
    if kind == "KeepName":
        return reads_other_rows(part)
    if kind == "Alias":
        return reads_other_rows(part[0])
    if kind == "AnonymousFunction":
        return reads_other_rows(part["input"])
    parts = part.values() if isinstance(part, dict) else [part]
    inner = [one for one in parts if isinstance(one, (dict, list)) or one == "Len"]
    return kind in _ACROSS or reads_other_rows(inner)


def _is_across(function: Any) -> bool:
    """`reads_other_rows` of a function of columns, whatever they are."""
    name = _name_of(function["function"])
    if name in ("Append", "Repeat"):
        return True
    if name == "SelectFields":  # polars cannot be asked about it
        return False
    inputs = [one if "Literal" in one else {"Column": "_"} for one in function["input"]]
    try:
        found: Any = _read(json.dumps({"Function": {**function, "input": inputs}})).meta
        if {"Column": "_"} not in inputs:
            return not found.is_scalar()
        return not (found.is_row_separable() and found.is_length_preserving())
    except Exception:  # noqa: BLE001  of polars: it depends on the columns' types, so it is one of values
        return False


def _name_of(function: Any) -> str:
    """The name of a function among those that polars is not asked about; empty for all others."""
    while isinstance(function, dict) and len(function) == 1:
        ((name, options),) = function.items()
        if name in _NAMED:
            return str(name)
        function = options
    return function if isinstance(function, str) and function in _NAMED else ""


def searched(node: Any) -> Iterator[pl.Expr]:
    """The arguments in which functions look for values: lists of each row, or columns of all rows.

    `node`: see `tree`.
    """
    if isinstance(node, list):
        for one in node:
            yield from searched(one)
    elif isinstance(node, dict):
        if "function" in node and "input" in node:
            count = _SEARCHES.get(_name_of(node["function"]), 0)
            arguments = node["input"][1 : 1 + count]
            yield from (_read(json.dumps(one)) for one in arguments if "Literal" not in one)
        for kind, part in node.items():
            if kind not in ("Literal", "function"):
                yield from searched(part)


_NULL_ONLY_OF_NULL = frozenset(
    {"Plus", "Minus", "Multiply", "TrueDivide", "Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq", "And", "Or", "Xor"}
)
"""Operators that give null only where an operand is null."""
_NEVER_NULL_OPERATORS = frozenset({"EqValidity", "NotEqValidity"})
_COMPARED = frozenset({"Eq", "NotEq", "Lt", "LtEq", "Gt", "GtEq"})
_STRICT = frozenset({"Not", "IsFinite", "IsInfinite", "IsNan", "IsNotNan"})
_TEXT = frozenset({"LenChars", "LenBytes", "Lowercase", "Uppercase", "StartsWith", "EndsWith", "Titlecase"})
_TIME = frozenset({"Year", "Month", "Day", "Hour", "Minute", "Second", "WeekDay", "OrdinalDay", "Quarter"})
_NUMBER = frozenset({"Abs", "Negate"})


def never_null(node: Any, sure: Collection[str]) -> bool:  # noqa: PLR0911  a case each
    """True if an expression is never null. `node`: see `tree`; `sure`: the columns that are never null.

    False where it is not known.
    """
    if not isinstance(node, dict) or len(node) != 1:
        return False
    ((kind, part),) = node.items()
    match kind:
        case "Column":
            return part in sure
        case "Alias":
            return never_null(part[0], sure)
        case "Literal":
            return "Dyn" in part or ("Scalar" in part and "Null" not in part["Scalar"])
        case "BinaryExpr":
            if part["op"] in _NEVER_NULL_OPERATORS:
                return True
            both = never_null(part["left"], sure) and never_null(part["right"], sure)
            return part["op"] in _NULL_ONLY_OF_NULL and both
        case "Ternary":
            return never_null(part["truthy"], sure) and never_null(part["falsy"], sure)
        case "Cast":
            return part["options"] == "Strict" and never_null(part["expr"], sure)
        case "Function":
            return _function(part["function"], part["input"], sure)
    return False


def _function(name: Any, arguments: list[Any], sure: Collection[str]) -> bool:
    """`never_null` of a function, by its name in the tree: a text, or a text within its group."""
    if name in ("FillNull", "Coalesce"):
        return any(never_null(argument, sure) for argument in arguments)
    every = all(never_null(argument, sure) for argument in arguments)
    if isinstance(name, str):
        return every and name in _NUMBER
    if isinstance(name, dict) and len(name) == 1:
        ((group, own),) = name.items()
        if group == "Sql":
            return every and own in ({"Binary": "Div"}, {"Binary": "Mul"})
        if group == "Boolean" and own in ("IsNull", "IsNotNull"):
            return True
        known = {"Boolean": _STRICT, "StringExpr": _TEXT, "TemporalExpr": _TIME}.get(group, frozenset())
        return every and isinstance(own, str) and own in known
    return False


def sure_after(node: Any) -> set[str]:
    """The columns that cannot be null in rows for which a predicate is true."""
    if not isinstance(node, dict) or len(node) != 1:
        return set()
    ((kind, part),) = node.items()
    if kind == "Column":
        return {part}
    if kind == "Function" and part["function"] == {"Boolean": "IsNotNull"}:
        return sure_after(part["input"][0]) if "Column" in part["input"][0] else set()
    if kind == "BinaryExpr" and part["op"] == "And":
        return sure_after(part["left"]) | sure_after(part["right"])
    if kind == "BinaryExpr" and part["op"] in _COMPARED:
        sides = (part["left"], part["right"])
        return {side["Column"] for side in sides if isinstance(side, dict) and "Column" in side}
    return set()
