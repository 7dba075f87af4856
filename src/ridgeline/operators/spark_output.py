"""Write with any batch writer of Spark, once a window."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from ridgeline.api.columns.casting import cast_exactly, with_microseconds
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import RidgelineError
from ridgeline.api.publisher import PublisherContext
from ridgeline.api.support.files import (
    StoreAwayError,
    is_local,
    local_path,
    may_recover,
)
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.datasets import Dataset, spark_datasets
from ridgeline.connect.output_files import OutputFiles
from ridgeline.connect.window_output import WindowOutput, explaining, other_copy, safe_name
from ridgeline.operators._segments import DamagedError, Segment, SegmentPublisher, check
from ridgeline.operators.spark_input import FILE_FORMATS, spark_type, what_spark_says, why_away

_WINDOW, _BESIDE = "{window_id}", "_ridgeline-"
"""Readers pass over names with `_` in front."""
Option = bool | int | float | str
Transform = Callable[[Any, int], Any]


class SparkOutput(WindowOutput):
    """Write each window's rows with `frame.write.format(format).options(...).mode(mode).save()`.

    Containers stage a window's rows as Parquet files in the checkpoint. After the commit the driver lets
    Spark write them, in the order of windows, and deletes them. `transform(frame, window_id)` may change the
    DataFrame before. Windows without rows are not written. A duration arrives as a number of its units
    (microseconds for a `timedelta`). Times that are finer than microseconds, as Spark's are, are refused.

    **How often a row arrives.** Never before its window is committed, and at least once. A window is written
    a second time, with the same rows and the same id, in two cases. One: the driver dies, or another driver
    takes over, while Spark writes the window or right after. The other: Spark fails after it has written a
    part. It is exactly once if the writer is idempotent for a window. So it is

    - for `delta`: `txnAppId` and `txnVersion` are set (unless given), and Delta skips a window that it has;
    - for files with `{window_id}` in the path and `mode="overwrite"`: `options={"path":
      "out/window={window_id}"}`;
    - for a writer that uses the window id as a key: `{window_id}` in any option is replaced by it, and
      `transform` gets it.

    It is at least once for Kafka, and for files or tables that are appended to.

    Where Spark has written before, and then a store does not answer or a disk is full, the run waits and
    writes the window again. Other errors of Spark end it.

    Example:
        In process there is no Spark to write with, but the application can be validated.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SparkOutput
        >>> from ridgeline.plan import find_faults
        >>> from ridgeline.testing import ListInput
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> options = {"path": "/data/prices/window={window_id}"}
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.3)]))
        >>> table = app.add_operator("table", SparkOutput(format="orc", options=options, mode="overwrite"))
        >>> app.add_stream("prices", prices.output, table.input)
        >>> find_faults(app)
        []
    """

    format: str = Field(min_length=1)
    options: dict[str, Option] = Field(default={})
    mode: Literal["append", "overwrite", "error", "errorifexists", "ignore"] = "append"
    transform: Transform | None = None

    def setup(self, context: OperatorContext) -> None:
        """Resolve the staging folder. Raises RidgelineError if it cannot be reached."""
        self._files = OutputFiles(context.staging)
        self._folder = f"{self._files.root}/{safe_name(context.name)}"

    def write(self, rows: pa.Table) -> None:
        """Stage the window's rows as a Parquet file, and hand its description to the publisher.

        Raises RidgelineError for a column that Spark has no type for, for times that it would cut, or if the
        file system refuses.
        """
        for field in rows.schema:
            if spark_type(field.type) is None:
                raise RidgelineError(
                    f"`{self.context.name}` cannot write column `{field.name}`: "
                    f"Spark has no type for {field.type}; leave it out upstream"
                )
        rows = self._of_microseconds(rows)
        path, name = self._folder, f"{self.file_stem}.parquet"
        out = self.until_there(
            lambda: self._files.write(
                f"{path}/{name}", lambda out: pq.write_table(rows, out, coerce_timestamps="us")
            ),
            self.context.staging,
        )
        self.context.hand_over((name, rows.num_rows, out.size, "", out.crc32))

    def _of_microseconds(self, rows: pa.Table) -> pa.Table:
        """The rows, with times in microseconds. Raises RidgelineError for those that are finer."""
        for place, field in enumerate(rows.schema):
            kind = with_microseconds(field.type)
            if kind == field.type:
                continue
            try:
                column = cast_exactly(pa.concat_arrays(rows.column(place).chunks), kind)
            except pa.ArrowException as error:
                raise RidgelineError(
                    f"`{self.context.name}` cannot write column `{field.name}`: "
                    f"Spark's times have microseconds; {error}; round it upstream"
                ) from error
            rows = rows.set_column(place, field.name, column)
        return rows

    def datasets(self) -> list[Dataset]:
        """The topics or files, as `ridgeline.connect.datasets` names them."""
        return spark_datasets(self.format, self.options)

    def publisher(self) -> SparkPublisher:
        """The part that runs on the driver."""
        return SparkPublisher(self)


class SparkPublisher(SegmentPublisher):
    """Let Spark write the staged rows after the window's commit. Its state: the files of the last window.

    After Spark has written a window, the marker `written-<window>` in the staging folder is renamed, then the
    files are deleted. The marker is created at the first start and stays.
    """

    restored = "restore the checkpoint's `staging` folder from a copy and start again"

    def __init__(self, output: SparkOutput) -> None:
        self._output = output
        self._written = -1
        """The last window that Spark has written: if it cannot write another one, where it writes is away."""
        self._cleared = False
        """Whether folders that a killed driver left beside their places are removed."""
        self._compared = False
        """Whether the folders of windows that are there fit the checkpoint."""

    def place(self) -> str:
        """Wherever Spark writes: `rewind` refuses if it has written anything."""
        return ""

    def open(self, context: PublisherContext, state: Any) -> None:
        """Load the files that were staged last, unless they are written; delete those of earlier windows.

        Raises RidgelineError if rows that are not yet written are missing.
        """
        self._enter(context, context.staging, safe_name(context.operator), "written", state)
        # where nothing was committed before, folders of another run are replaced or left
        self._compared = not state and context.committed < 0
        self._pending = [Segment(*entry) for entry in state["files"]] if state else []
        if state and (name := state["name"]) != context.operator:
            before = SparkPublisher(self._output)
            before.open(replace(context, operator=name), state)  # as it would have been done before
            before.publish(self._window)
            self._pending = []
        with explaining(self._failure):
            self._take_up(self._files.sizes(self._folder))
            self._clear()

    def _take_up(self, found: Mapping[str, int]) -> None:
        """Compare the state with the files `found` in the staging folder; keep what is still to be written.

        Called by `open`. Raises RidgelineError if the checkpoint is older than what was written, or if a
        staged file or the marker is missing.
        """
        is_marked = self._marker.find(found) is not None
        if not is_marked and not self._pending:
            self._marker.make(self._window)
        if self._marker.window > self._window:
            what = "the checkpoint is an older copy, and windows would be written twice; window "
            what += f"{self._marker.window} is written, window {self._window} is committed"
            raise other_copy(self._context.operator, what, "checkpoint", "")
        if self._marker.window == self._window:
            self._pending = []
        for segment in self._pending:
            if not is_marked or segment.name not in found:
                raise self._lost(segment, "it, or the marker `written-*` beside it, is missing")

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Return the window's files as the state that the manifest keeps."""
        self._window, self._pending = window_id, self._staged(window_id, values)
        files = [list(segment) for segment in self._pending]
        return {"window": window_id, "name": self._context.operator, "files": files}

    def publish(self, window_id: int) -> None:
        """Check and write the window's rows, then delete the staged files.

        Raises RidgelineError if Spark cannot write, or if the files are damaged.
        """
        if not self._pending or window_id != self._window:
            return
        if self._written != window_id:  # else Spark has written it, and the store went away after that
            self._write(window_id)
            self._written = window_id
        with explaining(self._failure):
            self._let_go(window_id)

    def _write(self, window_id: int) -> None:
        """Check the staged files, and let Spark write their rows. Raises RidgelineError."""
        for segment in self._pending:
            try:
                check(self._files, self._folder, segment)
            except (DamagedError, OSError) as error:
                self._context.check_owner()
                if isinstance(error, OSError) and may_recover(error):
                    raise self._failure(error) from error
                raise self._lost(segment, str(error)) from error
        self._context.check_owner()
        try:
            spark = self._context.spark()
            self._compare(spark, window_id)
            frame = spark.read.parquet(*[f"{self._staged_uri()}/{segment.name}" for segment in self._pending])
            if self._output.transform is not None:
                frame = self._output.transform(frame, window_id)
            self._save(spark, frame, window_id)
        except Exception as error:
            if (reason := what_spark_says(error)) is None:
                raise
            why = why_away(error)
            reason += f" ({why})" if why and why not in reason else ""
            message = (
                f"`{self._context.operator}` cannot write window {window_id} as `{self._output.format}`; "
                f"Spark says: {reason}; "
                "fix that, then start it again: the rows are in the checkpoint and will be written"
            )
            if self._written >= 0 and why:
                raise StoreAwayError(message, "", why) from error
            raise RidgelineError(message) from error

    def _save(self, spark: Any, frame: Any, window_id: int) -> None:
        """Let Spark write. A folder of files for each window is written beside its place, then moved there.

        The driver looks whether it still owns the checkpoint after Spark's work, and not only before. So one
        that stood still and was taken over touches no rows of the other. Raises FencedError then.
        """
        options = self.options(window_id)
        writer = frame.write.format(self._output.format)
        path = self._output.options.get("path")
        moves = isinstance(path, str) and _WINDOW in path and self._output.mode == "overwrite"
        if not moves or self._output.format.lower() not in FILE_FORMATS:
            writer.options(**options).mode(self._output.mode).save()
            return
        target = str(options["path"]).rstrip("/")
        above, _, name = target.rpartition("/")
        above = above or ("" if target[:1] == "/" else ".")
        beside = f"{above}/{_BESIDE}{name}-{self._context.epoch}"
        folders = _Folders(spark)
        if not self._cleared:  # the window that a killed driver was writing is the first that is written now
            for left in folders.names(above or "/"):
                if left.removeprefix(f"{_BESIDE}{name}-").isdecimal():  # not of an output `{name}-late`
                    folders.remove(f"{above}/{left}")
            self._cleared = True
        writer.options(**{**options, "path": beside}).mode(self._output.mode).save()
        try:
            self._context.check_owner()
        except BaseException:
            folders.remove(beside)
            raise
        folders.replace(beside, target, self._context.operator)

    def _compare(self, spark: Any, window_id: int) -> None:
        """Before the first write of a run that continues: look whether later windows have folders.

        Raises RidgelineError if they have: an older copy of the checkpoint would mix with them.
        """
        path = self._output.options.get("path")
        if self._compared or not isinstance(path, str) or _WINDOW not in path:
            self._compared = True
            return
        before, _, after = path.partition(_WINDOW)
        head, _, start = before.rpartition("/")
        name, rest = f"{start}{_WINDOW}{after.partition('/')[0]}", head or ("/" if before[:1] == "/" else ".")
        pattern = re.compile("([0-9]+)".join(map(re.escape, name.split(_WINDOW))))
        windows = [
            int(found[1])
            for one in _Folders(spark).names(rest)
            if (found := pattern.fullmatch(one)) is not None
        ]
        if (last := max(windows, default=-1)) > window_id:
            what = (
                f"`{mask_text(rest)}` is newer than the checkpoint and would get rows twice: it has window "
            )
            what += f"{last}, window {window_id} is the last that is committed"
            raise other_copy(self._context.operator, what, "checkpoint")
        self._compared = True

    def rewind(self, window_id: int, state: Any, at: int) -> Any:
        """Continue where nothing was written since.

        Raises RidgelineError otherwise: Spark's writers only add.
        """
        if self._marker.window > window_id:
            raise RidgelineError(
                f"`{self._context.operator}` cannot take back what Spark wrote as "
                f"`{self._output.format}` after window {window_id}, up to window {self._marker.window}"
            )
        return {"window": at, "name": self._context.operator, "files": []}

    def options(self, window_id: int) -> dict[str, Option]:
        """The writer's options for a window: `{window_id}` replaced, Delta's transaction added."""
        context = self._context
        options: dict[str, Option] = {}
        if self._output.format.lower() == "delta":
            options = {
                "txnAppId": f"{context.application}/{context.operator}/{context.run_id}",
                "txnVersion": window_id,
            }
        for name, value in self._output.options.items():
            options[name] = value.replace("{window_id}", str(window_id)) if isinstance(value, str) else value
        return options

    def _staged_uri(self) -> str:
        """The folder of staged files in the form that Spark takes."""
        staging = self._context.staging
        root = Path(local_path(staging)).as_uri() if is_local(staging) else staging
        return f"{root}/{safe_name(self._context.operator)}"


class _Folders:
    """Folders by Spark's own way to their file system. Methods raise errors of py4j."""

    def __init__(self, spark: Any) -> None:
        self._java = spark.sparkContext._jvm  # noqa: SLF001  there is no other way to Hadoop's file systems
        self._settings = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001

    def _found(self, folder: str) -> tuple[Any, Any]:
        path = self._java.org.apache.hadoop.fs.Path(folder)
        return path.getFileSystem(self._settings), path

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it is not there."""
        files, path = self._found(folder)
        if not files.exists(path):
            return []
        return [str(one.getPath().getName()) for one in files.listStatus(path)]

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it is there."""
        files, path = self._found(folder)
        files.delete(path, True)  # noqa: FBT003  Java's

    def replace(self, source: str, target: str, operator: str) -> None:
        """Move a folder of an operator to the place of another one.

        Raises RidgelineError if the file system cannot, or if a folder is at the place still. Hadoop would
        move the new one into that, where no reader looks for it.
        """
        files, path = self._found(target)
        files.delete(path, True)  # noqa: FBT003  Java's
        if files.exists(path):  # `delete` has left some of it, or another writer was quick
            self.remove(source)
            raise _cannot_move(operator, source, target, "what was there before cannot be removed")
        moved = files.rename(self._java.org.apache.hadoop.fs.Path(source), path)
        within = f"{target}/{source.rpartition('/')[2]}"
        if files.exists(self._java.org.apache.hadoop.fs.Path(within)):
            self.remove(within)
            raise _cannot_move(operator, source, target, "another writer made a folder there meanwhile")
        if not moved:
            raise _cannot_move(operator, source, target, "the file system does not move it")


def _cannot_move(operator: str, source: str, target: str, why: str) -> RidgelineError:
    msg = f"`{operator}`: `{mask_text(source)}` cannot be moved to `{mask_text(target)}`: {why}; see who "
    return RidgelineError(msg + "else writes there, then start it again: the rows are in the checkpoint")
