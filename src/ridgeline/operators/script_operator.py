"""Run Python text that is a property, and can be changed while the application runs."""

from __future__ import annotations

import ast
import linecache
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, OutputPort, RidgelineError, Schema, SchemaError, SchemaType
from ridgeline.api.columns.casting import to_python
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import shorten
from ridgeline.operators._shaped import DerivingOperator, GivenSchema
from ridgeline.operators.frames._columns import columns_of

ROWS, BATCHES = "process", "process_batch"


class ScriptOperator(GivenSchema, DerivingOperator):
    """Run a script: Python text that defines `process(row)` or `process_batch(batch)`.

    `script`: the text. `process` takes a row as a dictionary. It returns a dictionary, None for no row, or
    several dictionaries in a list or by `yield`. `process_batch` takes an Arrow batch and returns one, or
    None. Text that does not compile, or defines neither, is refused before anything runs, with its line.

    `schema`: the columns of the results; by default those of the stream. The text is a property: who may
    change properties of a running application may run any code in it, see docs/security.md. All partitions
    change between the same two windows. Variables of a script are lost whenever its container ends: they are
    no state. An operator of one's own has some.

    Rows keep their times. Partitions: round robin.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import ScriptOperator
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Payment(NamedTuple):
        ...     user: str
        ...     cents: int
        >>> text = "def process(row): return row if row['cents'] > 0 else None"
        >>> app = Application("payments")
        >>> source = app.add_operator("source", ListInput(Payment, [("ann", 5), ("bob", -1)]))
        >>> script = app.add_operator("script", ScriptOperator(text))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("payments", source.output, script.input)
        >>> app.add_stream("valid", script.output, sink.input)
        >>> run_local(app).collected("sink")
        [{'user': 'ann', 'cents': 5}]
    """

    input = InputPort(Any)
    output = OutputPort(Any)

    script: str
    schema: SchemaType[Any] | None = Field(default=None, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse text that does not compile, or has no function to call."""
        try:
            function_of(self.script)
        except ScriptError as error:
            return [("script", self.script, str(error))]
        return []

    def derived(self, given: Schema) -> object:
        """The columns of the stream. Raises SchemaError for a stream without columns."""
        if given.pickled:
            raise SchemaError(
                "tuples of `object` have no columns for a script; give the port before it a schema"
            )
        return columns_of(given)

    def setup(self, context: OperatorContext) -> None:
        """Run the text, which defines the function."""
        self.name, self.function = function_of(self.script), loaded(self.script, context.name)
        self.columns = Schema(columns_of(self.output.schema))

    @input.process_batch
    def run(self, batch: pa.RecordBatch) -> None:
        """Emit what the function returns for a batch. Raises what it raises."""
        if not len(batch):
            return
        if self.name == BATCHES:
            self._run_batch(batch)
            return
        rows: list[Any] = []
        places: list[int] = []
        columns = [to_python(column) for column in batch.columns]
        names, function = batch.schema.names, self.function
        for place, values in enumerate(zip(*columns, strict=True)):
            found = self._rows(function(dict(zip(names, values, strict=True))))
            rows += found
            places += [place] * len(found)
        if rows:
            self.output.emit_batch(self.columns.encode(rows), rows=places)

    def _run_batch(self, batch: pa.RecordBatch) -> None:
        found = self.function(batch)
        if found is None:
            return
        if not isinstance(found, (pa.RecordBatch, pa.Table)) and not hasattr(found, "__arrow_c_stream__"):
            raise RidgelineError(
                f"`{BATCHES}` returned {shorten(found)}; return an Arrow batch, a data frame or None"
            )
        self.output.emit_batch(found)

    def _rows(self, found: Any) -> list[Any]:
        """The rows that a call has returned."""
        if found is None:
            return []
        rows = [found] if isinstance(found, Mapping) or not isinstance(found, Iterable) else list(found)
        for row in rows:
            if not isinstance(row, Mapping):
                raise RidgelineError(
                    f"`{ROWS}` returned {shorten(row)}; return a dictionary, several of them, or None"
                )
        return rows


class ScriptError(ValueError):
    """Text that is no script; it names the line, and says what to do."""


def loaded(text: str, step: str) -> Callable[[Any], Any]:
    """The function of a script, which is run. Raises what the text raises."""
    file = f"<script of {step}>"
    # so that errors show the line
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": f"script_of_{step}"}
    exec(_compiled(text, file)[1], names)  # noqa: S102  the operator is there for it
    function: Callable[[Any], Any] = names[function_of(text)]
    return function


def function_of(text: str) -> str:
    """The name of the function that a script defines. Raises ScriptError."""
    defined = {
        one.name: one
        for one in _compiled(text, "<script>")[0].body
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name in (ROWS, BATCHES)
    }
    if len(defined) != 1:
        found = "both functions" if defined else "no function"
        raise ScriptError(f"defines {found}; define one, `def {ROWS}(row):` or `def {BATCHES}(batch):`")
    ((name, node),) = defined.items()
    given = node.args
    if isinstance(node, ast.AsyncFunctionDef):
        raise ScriptError(f"line {node.lineno}: `{name}` is `async`; make it a plain function")
    least = len(given.posonlyargs) + len(given.args) - len(given.defaults)
    most = len(given.posonlyargs) + len(given.args)
    needed = [
        one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None
    ]
    if needed or least > 1 or (most < 1 and given.vararg is None):
        raise ScriptError(f"line {node.lineno}: `{name}` must take one argument")
    return name


def _compiled(text: str, file: str) -> tuple[ast.Module, Any]:
    """The syntax tree of a script, and its code. Raises ScriptError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes: the text runs all the same
            return ast.parse(text, file), compile(text, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise ScriptError(
            f"line {error.lineno}: {error.msg}{f' in `{line}`' if line else ''}; fix this line"
        ) from None
    except (ValueError, MemoryError, RecursionError) as error:
        raise ScriptError(
            f"cannot be compiled: {type(error).__name__}: {error}; write plain, shorter Python"
        ) from None
