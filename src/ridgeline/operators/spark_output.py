"""Any batch writer of Spark as an output operator, once a window."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from pydantic import Field

from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import RidgelineError
from ridgeline.api.files import is_local, local_path, resolve
from ridgeline.api.publisher import Publisher, PublisherContext
from ridgeline.operators._spark_types import spark_type, what_spark_says
from ridgeline.operators._window_output import WindowOutput, safe_name, write_failure

Option = bool | int | float | str
Transform = Callable[[Any, int], Any]


class SparkOutput(WindowOutput):
    """Write each window's rows with `frame.write.format(format).options(...).mode(mode).save()`.

    Containers stage a window's rows as Parquet files in the checkpoint; after the commit the driver lets Spark write them, in the order of
    windows, and deletes them. `transform(frame, window_id)` may change the DataFrame before. Windows without rows are not written.
    A duration arrives as a number of its units (microseconds for a `timedelta`), times of less than a microsecond are cut.

    **How often a row arrives.** Never before its window is committed, and at least once. A second time only if the driver dies after Spark
    has written the window and before the staged files are gone: then the window is written again, with the same rows and the same id. What
    that does is the writer's: exactly once if writing the same window twice is like writing it once. So it is

    - for `delta`: `txnAppId` and `txnVersion` are set (unless given), and Delta passes over a window that it has;
    - for files with `{window_id}` in the path and `mode="overwrite"`: `options={"path": "out/window={window_id}"}`;
    - for whatever uses the window id as a key: `{window_id}` in any option is replaced by it, and `transform` gets it.

    It is at least once for Kafka, and for files or tables that are appended to.
    """

    format: str = Field(min_length=1)
    options: dict[str, Option] = Field(default={})
    mode: str = "append"
    transform: Transform | None = None

    def property_faults(self) -> list[tuple[str, Any, str]]:
        """A mode that Spark has."""
        modes = ("append", "overwrite", "error", "errorifexists", "ignore")
        return [] if self.mode in modes else [("mode", self.mode, f"must be one of {', '.join(modes)}")]

    def setup(self, context: OperatorContext) -> None:
        """Find the staging folder. Raises RidgelineError if it cannot be reached."""
        self._files, root = resolve(context.staging)
        self._folder = f"{root}/{safe_name(context.name)}"

    def write(self, rows: pa.Table) -> None:
        """Stage the rows. Raises RidgelineError for a column that Spark has no type for, or if the file system refuses."""
        for field in rows.schema:
            if spark_type(field.type) is None:
                message = (
                    f"`{self.context.name}` cannot write column `{field.name}`: Spark has no type for {field.type}; leave it out upstream"
                )
                raise RidgelineError(message)
        path = f"{self._folder}/{self.file_stem}.parquet"
        try:
            self._files.create_dir(self._folder, recursive=True)
            pq.write_table(rows, path, filesystem=self._files, coerce_timestamps="us", allow_truncated_timestamps=True)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._files.delete_file(path)
            raise write_failure(self.context.name, self.context.staging, error) from error
        self.context.hand_over(f"{self.file_stem}.parquet")

    def publisher(self) -> SparkPublisher:
        """The driver's half."""
        return SparkPublisher(self.format, dict(self.options), self.mode, self.transform)


class SparkPublisher(Publisher):
    """Lets Spark write what is staged, once the window is committed. Its state: the files of the last window."""

    def __init__(self, format: str, options: Mapping[str, Option], mode: str, transform: Transform | None) -> None:
        self._format, self._options, self._mode, self._transform = format, options, mode, transform
        self._staged: list[str] = []
        self._window = -1

    def open(self, context: PublisherContext, state: Any) -> None:
        """Take up what was staged last, if it is still there: where a file is gone, the window was written. Delete all else."""
        self._context = context
        self._files, root = resolve(context.staging)
        self._folder = f"{root}/{safe_name(context.operator)}"
        self._window, staged = (state["window"], state["files"]) if state else (-1, [])
        try:
            there = {info.base_name for info in self._files.get_file_info(pyarrow.fs.FileSelector(self._folder, allow_not_found=True))}
            self._staged = staged if there.issuperset(staged) else []
            self._delete(there.difference(self._staged))
        except OSError as error:
            raise write_failure(context.operator, context.staging, error) from error

    def stage(self, window_id: int, values: Sequence[Any]) -> Any:
        """Note the window's files."""
        self._window, self._staged = window_id, list(values)
        return {"window": window_id, "files": self._staged}

    def publish(self, window_id: int) -> None:
        """Write the window's rows and delete the staged files. Raises RidgelineError if Spark cannot."""
        if not self._staged or window_id != self._window:
            return
        try:
            spark = self._context.spark()
            frame = spark.read.parquet(*[f"{self._uri()}/{name}" for name in self._staged])
            if self._transform is not None:
                frame = self._transform(frame, window_id)
            frame.write.format(self._format).options(**self.options(window_id)).mode(self._mode).save()
        except Exception as error:
            if (reason := what_spark_says(error)) is None:
                raise
            message = (
                f"`{self._context.operator}` cannot write window {window_id} as `{self._format}`; Spark says: {reason}; "
                "mend that, then start it again: the rows are in the checkpoint and will be written"
            )
            raise RidgelineError(message) from error
        self._delete(self._staged)
        self._staged = []

    def options(self, window_id: int) -> dict[str, Option]:
        """The writer's options for a window."""
        context = self._context
        options: dict[str, Option] = {}
        if self._format.lower() == "delta":
            options = {"txnAppId": f"{context.application}/{context.operator}/{context.run_id}", "txnVersion": window_id}
        for name, value in self._options.items():
            options[name] = value.replace("{window_id}", str(window_id)) if isinstance(value, str) else value
        return options

    def _uri(self) -> str:
        """The folder of staged files, as Spark takes it."""
        staging = self._context.staging
        root = Path(local_path(staging)).as_uri() if is_local(staging) else staging
        return f"{root}/{safe_name(self._context.operator)}"

    def _delete(self, names: set[str] | Sequence[str]) -> None:
        for name in sorted(names):
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_file(f"{self._folder}/{name}")
