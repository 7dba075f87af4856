"""What a container's failure is to the driver: a report like any other, as plain data.

Spark's task ends well, so Spark tries nothing again and prints nothing.
"""

from __future__ import annotations

import traceback
from dataclasses import replace

from ridgeline.api.errors import (
    CallbackInterrupt,
    ContainerAbortError,
    Failure,
    OperatorError,
    RidgelineError,
    StateError,
    described,
)
from ridgeline.api.support.files import is_of_store
from ridgeline.engine.files.storage import explain
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.protocol import STORE


class InputLostError(BaseException):
    """Spark's input of a task broke off.

    Not the operator's fault, so no callback and no `except Exception` in one must take it.
    """


def failure_of(error: BaseException, spec: ContainerSpec, window_id: int, checkpoint: str) -> Failure:
    """The failure of a container: of a callback, of state, of a store, or a fault of the engine."""
    away = is_of_store(error)
    if isinstance(error, (OperatorError, CallbackInterrupt)):
        return replace(error.failure, cluster=True, raised=False) if away else error.failure
    trace = ""
    if away:
        return Failure(spec.application, "", 0, window_id, STORE, str(error), cluster=True)
    if isinstance(error, ContainerAbortError):
        callback, text = "emit_tuples", str(error)
    elif isinstance(error, (RidgelineError, OSError)):
        callback, text = "state", explain(checkpoint, error) if isinstance(error, OSError) else str(error)
    else:
        callback, text, trace = "its container", described(error), "".join(traceback.format_exception(error))
    title = (error.operator if isinstance(error, StateError) else "") or spec.operators[0].title
    return Failure(spec.application, title, 0, window_id, callback, text, traceback=trace)


def hosting_failure(error: Exception, checkpoint: str) -> Failure:
    """The failure of a slot that cannot make the containers that it is to host."""
    if is_of_store(error):
        return Failure("", "", 0, -1, STORE, str(error), cluster=True)
    text = explain(checkpoint, error) if isinstance(error, OSError) else described(error)
    trace = "".join(traceback.format_exception(error))
    return Failure("", "", 0, -1, "making its containers", text, traceback=trace)
