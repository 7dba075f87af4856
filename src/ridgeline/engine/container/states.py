"""The states of a container's operators: the version that each holds in memory, and what a window changes.

State in memory is a cache of the files that a version names.
"""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.errors import Failure, OperatorError, StateError, described
from ridgeline.api.state import PLATFORM, StateCell, ValueCell
from ridgeline.api.support.loops import delayed_classes, has_delayed
from ridgeline.api.support.pickling import Classes, dumps
from ridgeline.engine.files.storage import Storage
from ridgeline.engine.operator.runtime import OperatorRuntime
from ridgeline.engine.state import state_files
from ridgeline.engine.state import versions as state_versions
from ridgeline.engine.state.segment_files import SegmentFiles
from ridgeline.engine.state.slides import SLIDES, SlidesCell
from ridgeline.plan.change.state_shapes import class_names
from ridgeline.plan.container_spec import ContainerSpec
from ridgeline.plan.physical import PhysicalOperator
from ridgeline.plan.protocol import OperatorReport, StateVersion, WindowReport, WindowRequest


class ContainerStates:
    """The states of each operator, by physical id. One thread."""

    def __init__(self, storage: Storage, run_id: str) -> None:
        self._storage = storage
        self._run_id = run_id
        self._files = SegmentFiles(storage, run_id)
        self.epoch = 0
        """The driver's."""
        self.versions: dict[int, StateVersion | None] = {}
        """The version in each operator's cells, None if unknown: at least the segments and the last name."""

    def add(self, operator: int) -> None:
        """Keep the state of an operator that has just been made: its cells are empty."""
        self.versions[operator] = ()

    def remove(self, operator: int) -> None:
        """Forget an operator that lives here no more."""
        self.versions.pop(operator, None)

    def restore(
        self,
        spec: ContainerSpec,
        runtime: OperatorRuntime,
        states: Mapping[int, StateVersion] | None,
    ) -> StateVersion:
        """Bring an operator's state to the version before a window; leave it as it is if `states` is None.

        Returns the version, of one that is left at least the segments and the last name. Raises StateError,
        and OSError for files that cannot be read.
        """
        operator_id = runtime.spec.id
        held = self.versions[operator_id]
        wanted = held if states is None else states.get(operator_id, ())
        self.versions[operator_id] = None  # unknown until the window has ended well
        if runtime.cells and wanted is not None and held != wanted:
            owner = spec.tails.get(operator_id, runtime.spec)
            try:
                state_versions.restore(self._files, owner, runtime.cells, wanted, held, self.epoch)
            except StateError as error:
                error.operator = runtime.spec.title
                raise
        return wanted or ()

    def note_changes(
        self,
        runtime: OperatorRuntime,
        report: OperatorReport,
        changes: dict[int, state_files.CellChanges],
    ) -> None:
        """Add what an operator changed to `changes`, and note what the report says of it."""
        changed = runtime.instance.changes()
        if isinstance(held := runtime.cells.get(SLIDES), SlidesCell):
            report.window.held_bytes = held.size_bytes
        report.delays = has_delayed(runtime.operator)
        if changed and runtime.spec.attributes["keep_state"]:
            changes[runtime.spec.id] = changed
            report.replaces = all(
                (isinstance(cell, ValueCell) and name in changed) or _is_nothing(name, cell)
                for name, cell in runtime.cells.items()
            )

    def write(
        self,
        spec: ContainerSpec,
        operators: Mapping[int, OperatorRuntime],
        request: WindowRequest,
        tag: str,
        changes: Mapping[int, state_files.CellChanges],
        report: WindowReport,
    ) -> None:
        """Write what a window changed, and report its name.

        If it is small it travels in the report, to be written with the commit, else it becomes a state file.
        Raises OperatorError for a state that cannot be pickled, and OSError.
        """
        name = state_files.file_name(
            request.window_id, spec.id, request.epoch, request.attempt, f"{self._run_id}-{tag}"
        )
        try:
            sections = {
                operators[operator].spec.state_key: of_operator for operator, of_operator in changes.items()
            }
            classes: dict[str, Classes] = {}
            data, sizes = state_files.encode(name, sections, classes) if sections else (b"", {})
        except Exception as error:
            raise _unwritable(
                spec.application,
                {operator: operators[operator].spec for operator in changes},
                changes,
                request.window_id,
                error,
            ) from error
        if len(data) > state_files.SMALL_BYTES:
            state_files.write(self._storage, name, data)
        elif data:
            report.small_change = name, data
        for operator_report in report.operators:
            operator = operator_report.window.operator
            if operator in changes:
                operator_report.change = name
                found = classes.get(operators[operator].spec.state_key, {})
                operator_report.changed = {
                    state: class_names(found.get(state, ())) for state in changes[operator]
                }
                if delayed := class_names(delayed_classes(operators[operator].operator)):
                    operator_report.changed = {**operator_report.changed, "kept": delayed}
                operator_report.window.state_bytes = sizes[operators[operator].spec.state_key]

    def follow(self, before: StateVersion, report: OperatorReport, request: WindowRequest) -> None:
        """A window has ended well: its changes follow on the version before it.

        Of a version that the request does not name only what is needed is kept. Else a container that runs
        window after window would hold the names of all of them.
        """
        if report.replaces:
            version: StateVersion = (report.change,)
        elif not report.change:
            version = before
        else:
            kept = state_files.segments_of(before) if request.states is None else before
            version = (*kept, report.change)
        self.versions[report.window.operator] = version


def _is_nothing(name: str, cell: StateCell) -> bool:
    """True for a state that an operator need not have, and has not: a version without it says as much."""
    return name in PLATFORM and cell.snapshot() == (None,)


def _unwritable(
    application: str,
    operators: Mapping[int, PhysicalOperator],
    changes: Mapping[int, state_files.CellChanges],
    window_id: int,
    error: Exception,
) -> OperatorError:
    """Name the operator whose state cannot be pickled; the first of `operators` if none is found."""
    found, text = next(iter(operators.values())), described(error)
    for operator_id, cells in changes.items():
        for cell, change in cells.items():
            try:
                dumps(change)
            except Exception:  # noqa: BLE001  it is this one
                found = operators[operator_id]
                text = f"state `{cell}` cannot be written: {error}; keep plain values in state, make "
                text += "connections and the like in `setup`"
    name = found.title if found.unifier else found.name
    return OperatorError(
        Failure(application, name, found.partition, window_id, "checkpoint", text, raised=True)
    )
