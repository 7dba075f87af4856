"""Applications whose operators stand in a row, which is all that most tests need."""

from typing import Any

from ridgeline import Application
from ridgeline.api.operator import operator_type


def in_a_row(app: Application, /, **operators: Any) -> Application:
    """Add operators by their names. The first input port of each reads the first output port before it.

    An operator with attributes is a pair, such as `step=(Step(), {"partitions": 2})`. A stream has the name
    of the operator where it begins.
    """
    source, port = "", None
    for name, given in operators.items():
        operator, attributes = given if isinstance(given, tuple) else (given, {})
        app.add_operator(name, operator, **attributes)
        declared = operator_type(type(operator))
        if port is not None:
            app.add_stream(source, port, getattr(operator, next(iter(declared.inputs))))
        source = name
        port = getattr(operator, next(iter(declared.outputs))) if declared.outputs else None
    return app
