"""`ridgeline checkpoint`: says, checks and copies checkpoint folders, and exports states."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.api.support.option import Option
from ridgeline.api.support.secrets.addresses import mask_addresses
from ridgeline.cli.errors import FAILED, CommandError
from ridgeline.cli.grouping import argument, command, option
from ridgeline.cli.output import answer, write
from ridgeline.measure.wording.units import size as size_text

if TYPE_CHECKING:
    from ridgeline.engine.driver.checkpoint.manifest import Manifest
    from ridgeline.engine.driver.checkpoint.upkeep.contents import Description

Folder = Annotated[str, argument("Folder or URI that `--checkpoint` was given.", "DIR")]
AsJson = Annotated[bool, option("Print JSON instead of text.", "--json")]


@dataclass(frozen=True)
class Store:
    """How an object store is reached.

    Args:
        conf (KEY=VALUE): A setting of Spark for an object store: `--conf spark.hadoop.fs.s3a.endpoint=URL`.
            Else `AWS_*` variables count.
    """

    conf: Annotated[
        Mapping[str, str], Option(form="key=value", example="spark.hadoop.fs.s3a.endpoint=http://host:9000")
    ] = field(default_factory=dict)

    def use(self) -> None:
        """Reach stores so in this process."""
        if self.conf:
            from ridgeline.api.support.files import use_s3
            from ridgeline.api.support.secrets.providers import provided_settings
            from ridgeline.engine.spark.s3 import s3_settings_of

            use_s3(s3_settings_of(provided_settings(dict(self.conf))))


checkpoint = typer.Typer(
    help="Describe, check, copy, clean, export checkpoints.",
    no_args_is_help=True,
)


@contextmanager
def _written(where: object, remedy: str) -> Iterator[None]:
    """Say what to do after an error of the disk or store. Raises CheckpointError in its place."""
    from ridgeline.api.errors import CheckpointError
    from ridgeline.api.support.masking import mask_text

    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        msg = f"`{mask_text(str(where))}` cannot be written, or what it is made of cannot be read: "
        msg += f"{mask_text(why)}; fix that, and {remedy}"
        raise CheckpointError(msg) from error


def describe(folder: Folder, store: Store, as_json: AsJson = False) -> None:
    """Say what a checkpoint holds: application, kept windows, sizes by operator.

    A driver may be at work in it.

    Example: `ridgeline checkpoint describe state`
    """
    from ridgeline.engine.driver.checkpoint.upkeep.contents import describe as describe_run
    from ridgeline.engine.driver.checkpoint.upkeep.contents import runs_of

    store.use()
    found = [describe_run(run) for run in runs_of(folder)]
    answer(list(map(_row, found)), chain.from_iterable(map(_lines, found)), as_json=as_json)


def _row(one: Description) -> dict[str, Any]:
    """A run as JSON values."""
    last = one.windows[0] if one.windows else None
    return {
        "application": one.run.application,
        "region": one.run.region or None,
        "run": one.run.run_id,
        "folder": mask_addresses(one.run.storage.uri),
        "epoch": one.epoch,
        "formats": dict(one.formats),
        "planVersion": None if last is None else last.plan_version,
        "ended": last is not None and last.ended,
        "windows": [window.window_id for window in one.windows],
        "operators": dict(one.operators),
        "folders": dict(one.folders),
        "sizeBytes": sum(one.folders.values()),
    }


def _window(manifest: Manifest) -> str:
    """A window that a rewind can begin with, and which it repeats."""
    repeats = "" if manifest.rewound_to is None else f" (repeats {manifest.rewound_to})"
    return f"{manifest.window_id}{repeats}"


def _lines(one: Description) -> Iterator[str]:
    """A run for people."""
    run = one.run
    region = f", region {run.region}" if run.region else ""
    yield f"application {run.application}{region}, run {run.run_id}, in {mask_addresses(run.storage.uri)}"
    formats = ", ".join(f"{name} {number}" for name, number in one.formats.items())
    yield f"driver {one.epoch} of this run; formats: {formats}"
    if not one.windows:
        yield "no window is committed"
    else:
        last = one.windows[0]
        ended = ", all inputs had finished" if last.ended else ""
        yield f"last window {last.window_id}, plan version {last.plan_version}{ended}"
        yield f"windows to go back to: {', '.join(map(_window, one.windows))}"
    for title, sizes in (("states", one.operators), ("folders", one.folders)):
        yield f"{title}:"
        for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
            yield f"  {size_text(size):>10}  {name or '(files beside them)'}"


def verify(folder: Folder, store: Store, as_json: AsJson = False) -> None:
    """Read every file of a checkpoint, and name those that are damaged.

    Example: `ridgeline checkpoint verify state`

    Exit codes: 0 whole, 1 damaged, 2 there is no checkpoint.
    """
    from ridgeline.engine.driver.checkpoint.upkeep.contents import runs_of
    from ridgeline.engine.driver.checkpoint.upkeep.contents import verify as verify_run

    store.use()
    found = [verify_run(run) for run in runs_of(folder)]
    faults = [mask_addresses(fault) for one in found for fault in one.faults]
    counts = {
        "files": sum(one.files for one in found),
        "sizeBytes": sum(one.size_bytes for one in found),
        "windows": sum(one.windows for one in found),
    }
    read = f"{counts['files']:,} files, {size_text(counts['sizeBytes'])}, {counts['windows']:,} windows"
    state = "damaged" if faults else "whole"
    answer({**counts, "faults": faults}, [*faults, f"{state}: read {read}"], as_json=as_json)
    if faults:
        raise typer.Exit(FAILED)


def copy(folder: Folder, to: str, *, store: Store, moved: list[str] | None = None) -> None:
    """Copy a checkpoint, also while the application runs: the copy is of one moment.

    It has the same run: let only one of both publish to the same outputs. Where outputs lie elsewhere for the
    copy, `--moved OLD=NEW` says so: else a rewind would not find them.

    Example: `ridgeline checkpoint copy state s3://bucket/state`

    Args:
        folder: That of the checkpoint.
        to: Folder or URI, which is empty.
        store: How the store is reached.
        moved (OLD=NEW): A folder of the application that lies elsewhere for the copy, such as an output's.
            May be repeated.
    """
    from ridgeline.engine.driver.checkpoint.upkeep.copying import copy as copy_folder

    store.use()
    with _written(to, "give the same command again: it continues"):
        copied = copy_folder(folder, to, _places(moved))
    size = f": {copied.files:,} files, {size_text(copied.size_bytes)}" if copied.files else ""
    write(mask_addresses(f"copied {folder} to {to}{size}"))
    if copied.windows:
        write(f"windows to go back to: {', '.join(map(str, copied.windows))}")


def _places(texts: Sequence[str] | None) -> dict[str, str]:
    """The folders of `--moved`. Raises CommandError."""
    places = {}
    for text in texts or ():
        old, equals, new = text.partition("=")
        if not equals or not old.strip("/") or not new:
            raise CommandError(
                f"`--moved` takes `OLD=NEW`; got `{text}`; for example `--moved /old/results=/data/results`"
            )
        places[old.rstrip("/")] = new.rstrip("/")
    return places


def export_state(
    folder: Folder,
    *,
    store: Store,
    out: Path,
    operator: list[str] | None = None,
    window: int | None = None,
    as_json: AsJson = False,
) -> None:
    """Write the states of a checkpoint as Parquet: a file for each state of an operator.

    Keyed state has a row for each key. Other state has a row for each partition, or item. A driver may be at
    work. Classes of the application must be importable.

    Example: `ridgeline checkpoint export-state state --operator balances --out states`

    Args:
        folder: That of the checkpoint.
        store: How the store is reached.
        out (DIR): Folder that is empty, or not there.
        operator (NAME): This operator's states only. May be repeated.
        window (W): A window that is kept; else the last.
        as_json: Print JSON.
    """
    from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states

    store.use()
    with _written(out, "export again"):
        found = export_states(folder, out, operator or (), window)
    rows = [{"file": file, "rows": count} for file, count in found.files]
    lines = [f"note: {note}" for note in found.notes]
    lines += [f"{count:>12,}  {file}" for file, count in found.files]
    lines.append(f"exported window {found.window} to {out}")
    answer({"window": found.window, "files": rows, "notes": list(found.notes)}, lines, as_json=as_json)


for one in (describe, verify, copy, export_state):
    checkpoint.command()(command(one))
