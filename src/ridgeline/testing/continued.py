"""Continue a copy of a checkpoint in process, beside the application that has the checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ridgeline.api.clock import SystemClock
from ridgeline.api.enumerator import Enumerator
from ridgeline.api.errors import RidgelineError
from ridgeline.api.operator import InputOperator, Operator, SparkSource, operator_type, port_schema
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.engine.driver.checkpoint.manifest import Manifest
from ridgeline.engine.driver.checkpoint.planning import read_last
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.plan.execution import Plan
from ridgeline.testing.local_run import LocalRun
from ridgeline.testing.run_files import Fed


def continuing(plan: Plan, state: str, seconds: float | None, fed: str | None) -> dict[str, Any]:
    """Arguments of `run_local` for a run that continues a copy of a checkpoint.

    `seconds`: it runs by the clock for so long; None: as fast as it can. `fed`: the folder of the run whose
    input operators have emitted what those of this one are to emit; None: they read. Raises RidgelineError
    for an application or a checkpoint that cannot be run so.
    """
    logical = plan.logical
    if logical.regions:
        msg = f"`{logical.application}` has several regions, and is not run from a copy of their states; "
        raise RidgelineError(msg + "compare without `--state`")
    last = read_last(LocalStorage(state), logical.application)
    if last is None:
        msg = (
            "the checkpoint has no window of this application yet; wait for one, or compare without `--state`"
        )
        raise RidgelineError(msg)
    if last.ended:
        msg = f"the application has ended with window {last.window_id}: nothing is left to run"
        raise RidgelineError(msg)
    inputs: dict[str, Any] = {one.name: one.operator for one in logical.operators if one.is_input}
    more: dict[str, Any] = {"checkpoint": state}
    if fed is not None:
        return more | _fed(inputs, Fed(Path(fed)), last)
    for name, operator in inputs.items():
        if fault := _fault(operator):
            msg = f"`{name}` cannot be read a second time beside the application that runs: {fault}"
            raise RidgelineError(msg)
    if seconds is not None:
        clock = SystemClock()
        end = clock.monotonic() + seconds

        def is_over(_run: LocalRun) -> bool:
            return clock.monotonic() >= end

        more |= {"clock": clock, "until": is_over}
    return more


def ports_fed(plan: Plan) -> dict[str, str]:
    """The output port of each input operator that can be fed, by the operator's name."""
    inputs = [one for one in plan.logical.operators if one.is_input]
    return {one.name: next(iter(operator_type(type(one.operator)).outputs)) for one in inputs}


def _fed(inputs: dict[str, Any], fed: Fed, last: Manifest) -> dict[str, Any]:
    """The tuples of another run in the place of these inputs, whose own states are dropped.

    Raises RidgelineError for an input that the other one has not.
    """
    if missing := sorted(set(inputs) ^ set(fed.inputs)):
        side = "only the new version has" if missing[0] in inputs else "the new version has no"
        msg = (
            f"{side} the input `{missing[0]}`, so both cannot get the same tuples; compare without `--state`"
        )
        raise RidgelineError(msg)
    if not fed.windows:
        msg = "no window of A was committed, so there is nothing to compare; give a longer `--for`"
        raise RidgelineError(msg)
    schemas = {}
    for name, operator in inputs.items():
        ports = list(operator_type(type(operator)).outputs)
        schema = port_schema(operator, ports[0]) if len(ports) == 1 else None
        if schema is None:
            msg = f"the input `{name}` has not one output port with a schema, so nothing can be fed to it; "
            raise RidgelineError(msg + "compare without `--state`")
        schemas[name] = schema
    held = {key.rsplit("/", 2)[0] for key in last.states} | {*last.inputs, *last.finished}
    return {
        "inputs": fed.lists(schemas),
        "windows": len(fed.windows),
        "drop_state": tuple(name for name in inputs if name in held),
    }


def _fault(operator: Operator) -> str:
    """Why a second run must not read an input; "" if it may."""
    remedy = "record its tuples, and compare on these"
    if isinstance(operator, SparkSource):
        return f"it is a source of Spark, which does not run in process; {remedy}"
    if type(operator).committed is not InputOperator.committed:
        return f"its class does something once a window is committed; {remedy}"
    if isinstance(operator, PartitionedInput):
        sources = [one.source() for one in (operator, operator.history) if one is not None]
        if any(one.notes_committed() for one in sources):
            return f"the other side forgets or notes what was read; {remedy}, or leave its `group` out"
        return ""
    found = operator.enumerator() if isinstance(operator, InputOperator) else None
    if found is not None and type(found).committed is not Enumerator.committed:
        return f"its source forgets or notes what was read; {remedy}"
    return ""
