"""Check the ports of operators: connections, schemas, keys, times, methods, unifiers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from ridgeline.api.codec import StreamCodec, overrides
from ridgeline.api.columns.casting import family, is_text
from ridgeline.api.columns.schema import Schema
from ridgeline.api.errors import Faults, SchemaError, did_you_mean, listed, shorten
from ridgeline.api.operator import Unifier, makes_watermark, operator_type, port_schema
from ridgeline.api.ports import InputPort, OutputPort
from ridgeline.plan.build.callbacks import callback_faults
from ridgeline.plan.build.unifiers import unifier_faults
from ridgeline.plan.draft import Draft
from ridgeline.plan.logical import LogicalOperator
from ridgeline.plan.region import PortRef

_SCHEMAS = "give a NamedTuple, a dataclass, a `pyarrow.Schema` or `object`"
_NO_KEY = frozenset({"struct", "map", "duration", "hour"})
"""Families of types of which no key can be."""


def check_connections(draft: Draft, faults: Faults) -> None:
    """Check that required ports are connected, and that exactly the input operators have no upstream."""
    for operator in draft.operators:
        inputs, outputs = operator.declared.inputs, operator.declared.outputs
        exempt = {name for name in (*inputs, *outputs) if PortRef(operator.name, name) in draft.graph.exempt}
        found, remedies = operator.touched | exempt, draft.graph.nodes[operator.name].remedies
        if operator.is_input and inputs:
            what = f"the input operator `{operator.kind}` has input ports: {listed(list(inputs))}"
            faults.add(operator.name, what, "derive it from `Operator`, or remove them")
        needed = {} if operator.is_input else inputs
        is_loose = check_needed(faults, operator.name, needed, outputs, found, remedies.get("output", ""))
        if not operator.is_input and not is_loose and not found.intersection(inputs):
            ports = listed([operator.port(name) for name in inputs])
            remedy = f"connect one of its input ports: {ports}" if inputs else "give it an input port"
            what = f"nothing leads to it, but `{operator.kind}` is no input operator"
            faults.add(operator.name, what, f"{remedy}, or derive it from `InputOperator`")


def check_needed(
    faults: Faults,
    owner: str,
    inputs: Mapping[str, InputPort],
    outputs: Mapping[str, OutputPort],
    found: Collection[str],
    unread: str = "",
) -> bool:
    """Check the ports of an operator or a module that must be connected; True if an input is not.

    `found`: the connected ones. `unread`: the remedy if nothing reads what it emits.
    """
    loose = [f"{owner}.{name}" for name, port in inputs.items() if not port.optional and name not in found]
    for where in loose:
        remedy = f"end a stream there, `add_stream(name, ..., {where})`, or declare it with `optional=True`"
        faults.add(where, "the input port is not connected", remedy)
    silent = [f"{owner}.{name}" for name, port in outputs.items() if port.required and name not in found]
    for where in silent:
        remedy = f"begin a stream there: `add_stream(name, {where}, ...)`"
        faults.add(where, "the output port must be connected and is not", remedy)
    wanted = [name for name, port in outputs.items() if not port.optional and not port.error]
    if wanted and not silent and outputs.keys().isdisjoint(found):
        ports = listed([f"{owner}.{name}" for name in outputs])
        what, remedy = "none of its output ports is connected", f"begin a stream at one of {ports}"
        if unread:
            what, remedy = "nothing reads what it emits", unread
        elif len(outputs) == 1:
            what, remedy = "its output port is not connected", f"begin a stream at {ports}"
        faults.add(owner, what, remedy)
    return bool(loose)


def check_declarations(draft: Draft, faults: Faults) -> None:
    """Check what each operator's class declares of its ports; uses the schemas that are known by now."""
    _check_serialiser(faults, "stream_codec", draft.attributes.get("stream_codec"))
    for operator in draft.operators:
        for port, what, remedy in callback_faults(operator.operator):
            faults.add(operator.port(port) if port else operator.name, what, remedy)
        for name, entry in operator.declared.inputs.items():
            _check_input(faults, operator, name, entry)
        for name in operator.declared.outputs:
            _check_output(faults, operator, name)


def declared_schema(faults: Faults, where: str, component: Any, name: str) -> tuple[bool, Schema | None]:
    """Return whether the declaration of a port is valid, and its schema; None for `Any`.

    `component`: the operator or module; `where`: the port, for the fault that is added if it is not valid.
    """
    try:
        return True, port_schema(component, name)
    except SchemaError as error:
        what, _, remedy = str(error).rpartition("; ")
        faults.add(where, what or remedy, remedy if what else _SCHEMAS)
    except TypeError:
        declared = operator_type(type(component))
        port = declared.inputs.get(name) or declared.outputs[name]
        what = f"{shorten(port.declared)} cannot be a schema"
        faults.add(where, what, _SCHEMAS)
    return False, None


def _check_input(faults: Faults, operator: LogicalOperator, name: str, port: InputPort) -> None:
    """Check that an input port has a method, and a key that its schema has."""
    where = operator.port(name)
    methods = [method for method in (port.process_name, port.process_batch_name) if method is not None]
    if not methods and not isinstance(operator.operator, Unifier) and not operator.is_input:
        remedy = (
            f"decorate a method with `@{name}.process` or `@{name}.process_batch`, above other decorators"
        )
        faults.add(where, f"no method of `{operator.kind}` processes the tuples of the input port", remedy)
    _check_serialiser(faults, f"{where}.stream_codec", operator.ports.get(name, {}).get("stream_codec"))
    if _check_key(faults, where, port):
        return
    schema = operator.inputs.get(name)
    if schema is None or port.key is None:
        return
    if schema.pickled and port.key_columns:
        what = f"the key is {listed(list(port.key_columns))}, but tuples of `object` have no columns"
        faults.add(where, what, "give a function: `key=lambda tuple: ...`")
        return
    for column in port.key_columns:
        if column not in schema.arrow.names:
            what = f"the key column `{column}` is not in {schema.describe()}"
            faults.add(where, what, did_you_mean(column, schema.arrow.names))
        elif family(schema.arrow.field(column).type) in _NO_KEY:
            what = f"the column `{column}` is {schema.arrow.field(column).type}, which cannot be a key"
            known = "int, str, bytes, float, bool, Decimal, date or datetime"
            faults.add(where, what, f"take columns of {known}, or give a function")


def _check_key(faults: Faults, where: str, port: InputPort) -> bool:
    """Return True, and add a fault, if the declared key or codec is invalid."""
    codec: Any = port.declared_codec
    wrong: tuple[str, str] | None = None
    if codec is not None and not isinstance(codec, StreamCodec):
        wrong = f"its codec is {shorten(codec)}, which is no `StreamCodec`", "give an instance of a subclass"
    elif codec is not None and (found := codec_fault(codec)) is not None:
        wrong = f"its codec {found[0]}", found[1]
    elif codec is not None and codec.divides and port.key is not None:
        what = "the port has a `key` and a `codec`, and both say who gets which tuples"
        wrong = what, "give one of them"
    elif port.key is not None and not port.key_columns and not callable(port.key):
        remedy = "give the name of a column, several names, or a function that makes the key of a tuple"
        wrong = f"its key is {shorten(port.key)}", remedy
    if wrong is not None:
        faults.add(where, *wrong)
    return wrong is not None


def _check_serialiser(faults: Faults, where: str, codec: StreamCodec | None) -> None:
    """Check the attribute `stream_codec`."""
    fault = None if codec is None else codec_fault(codec, serialises=True)
    if fault is not None:
        faults.add(where, f"attribute `stream_codec`: {fault[0]}", fault[1])


def codec_fault(codec: StreamCodec, *, serialises: bool = False) -> tuple[str, str] | None:
    """The fault of a codec, and the remedy; None if it has none. `serialises`: it must do that."""
    kind = f"`{type(codec).__name__}`"
    known = [
        name for name in ("encode", "decode") if overrides(codec, name) or overrides(codec, f"{name}_all")
    ]
    if len(known) == 1:
        missing = "decode" if known == ["encode"] else "encode"
        return f"{kind} has `{known[0]}` but no `{missing}`", "implement both"
    if not known and serialises:
        return f"{kind} serialises nothing", "implement `encode` and `decode`"
    if not known and not codec.divides:
        return f"{kind} does nothing", "implement `hash`, or `encode` and `decode`"
    return None


def _check_output(faults: Faults, operator: LogicalOperator, name: str) -> None:
    """Check the unifier and the timestamp column of an output port."""
    where, schema = operator.port(name), operator.outputs.get(name)
    for what, remedy in unifier_faults(operator.operator, name, schema):
        faults.add(where, what, remedy)
    _check_lateness(faults, operator, name)
    column = operator.operator.timestamp_of(name)
    if column is None or schema is None:
        return
    if schema.pickled or column not in schema.arrow.names:
        columns = [] if schema.pickled else schema.arrow
        names = [field.name for field in columns if pa.types.is_timestamp(field.type)]
        remedy = "leave `timestamp` out, or give the tuples a column of type datetime"
        remedy = did_you_mean(column, names) if names else remedy
        faults.add(where, f"the timestamp column `{column}` is not in {schema.describe()}", remedy)
    elif not pa.types.is_timestamp(schema.arrow.field(column).type):
        what = f"the timestamp column `{column}` is {schema.arrow.field(column).type}, not a time"
        faults.add(where, what, _remedy_of_times(column, schema.arrow.field(column).type))


def _remedy_of_times(column: str, kind: pa.DataType) -> str:
    """How a column of this type becomes one of times."""
    if pa.types.is_integer(kind):
        timed = f'`with_columns("timed", {column}=pl.from_epoch("{column}", "ms"))`'
        return f"declare it as `datetime`, or compute it before: {timed}"
    if pa.types.is_date(kind):
        return f'declare it as `datetime`, or cast it before: `cast("timed", {{"{column}": datetime}})`'
    if is_text(kind):
        parsed = f'pl.col("{column}").str.to_datetime("%Y-%m-%d %H:%M:%S")'
        return f'declare it as `datetime`, or parse it before: `with_columns("timed", {column}={parsed})`'
    return "declare it as `datetime`"


def _check_lateness(faults: Faults, operator: LogicalOperator, name: str) -> None:
    """Refuse a promise without effect: watermarks begin at input operators, and not at error ports."""
    error = operator.declared.outputs[name].error
    if (makes_watermark(operator.operator) and not error) or operator.operator.lateness_of(name) is None:
        return
    where = operator.port(name)
    if not makes_watermark(operator.operator):
        what = f"`{operator.kind}` promises a `lateness`, but it is no input: watermarks come from inputs"
        remedy = "declare it at the input operators upstream, or lead the stream through `WithTimes`; "
        remedy += "leave it out here; `timestamp` may stay"
        faults.add(where, what, remedy)
    else:
        what = "an error port promises a `lateness`, but no watermark follows from errors"
        faults.add(where, what, "leave it out")
