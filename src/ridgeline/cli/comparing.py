"""The command `compare`: two versions or configurations of an application on the same input."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.api.errors import RidgelineError
from ridgeline.cli.arguments import App, Attributes, Properties, Written
from ridgeline.cli.configuration import load_configured
from ridgeline.cli.errors import FAILED, CommandError, make_console
from ridgeline.cli.output import write
from ridgeline.measure.events import ApplicationEnded

if TYPE_CHECKING:
    from ridgeline.testing.local_run import LocalRun

SIDE = "run-side"
_PRINTED = "printed"
EPILOG = "Options that are not listed here go to both sides, as those of `ridgeline validate`."
_ENDING_SECONDS = 5.0
State = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Begin both with the state of this checkpoint, which may be in use: copies of it are taken. A "
        "reads the inputs from its positions on, and B gets the same tuples.",
        show_default=False,
    ),
]
Lasting = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="TIME",
        help="With `--state`: run A by the clock for so long. Default: as fast as it can.",
        show_default=False,
    ),
]

Windows = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="End both runs after N windows.", show_default=False),
]


def compare(  # noqa: PLR0913, PLR0917  options
    context: typer.Context,
    a: App,
    b: Annotated[
        str | None,
        typer.Argument(metavar="[APP_B]", help="The other version. Default: the same.", show_default=False),
    ] = None,
    properties: Properties = None,
    attributes: Attributes = None,
    a_options: Annotated[
        str,
        typer.Option("--a", metavar="OPTIONS", help="Options of A alone: `--a '-D sums.size=3'`."),
    ] = "",
    b_options: Annotated[
        str,
        typer.Option(
            "--b", metavar="OPTIONS", help="Options of B alone: `--b '--attribute sums.partitions=2'`."
        ),
    ] = "",
    windows: Windows = None,
    state: State = None,
    lasting: Lasting = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Look at this operator or port (`sum.total`).", show_default=False),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0.0, metavar="T", help="How far floats may be apart: absolute or relative.")
    ] = 0.0,
    any_order: Annotated[bool, typer.Option("--any-order", help="Order of tuples never counts.")] = False,
    all_windows: Annotated[
        bool, typer.Option("--all-windows", help="Compare all windows as one: not window by window.")
    ] = False,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Show the first N differences.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all differences.")] = False,
) -> None:
    """Run two versions of an application in process, and compare what their streams carry.

    Each has a process of its own. No output operator writes anything. An application whose inputs never
    finish needs `--windows`. With `--state` both continue from copies of a checkpoint. So
    a new version is tried on inputs and state of the one that runs, and nothing of that is changed. An input
    whose other side forgets or notes what was read is refused then. So is an application with regions.

    Example: `ridgeline compare trades.py --b '-D sums.size=3'`

    Example: `ridgeline compare trades.py trades_v2.py --state /data/trades --for 5m`

    Exit codes: 0 equal, 1 different, 2 a side is not valid or did not run.
    """
    from ridgeline.testing.comparing import as_dict
    from ridgeline.testing.comparing import compare as compare_sides
    from ridgeline.testing.matching import Tolerance
    from ridgeline.testing.run_files import Side

    seconds = _check_state(state, lasting, windows)
    both = [*_repeated("-D", properties), *_repeated("--attribute", attributes), *context.args]
    both += [] if windows is None else ["--windows", str(windows)]
    with tempfile.TemporaryDirectory(prefix="ridgeline-compare-") as folder:
        sides = {name: Path(folder, name) for name in ("A", "B")}
        commands = {
            "A": [a, *_split("--a", a_options), *both],
            "B": [b or a, *_split("--b", b_options), *both],
        }
        if state is None:
            _run(commands, sides)
        else:
            _run_from(state, seconds, commands, sides)
        try:
            found = compare_sides(
                Side(sides["A"]),
                Side(sides["B"]),
                only=only or (),
                tolerance=Tolerance(tolerance, tolerance),
                ordered=False if any_order else None,
                by_window=not all_windows,
            )
        except RidgelineError as error:
            raise CommandError(str(error)) from error
    write(json.dumps(as_dict(found), indent=2) if as_json else "\n".join(found.lines(limit)))
    if not found.equal:
        raise typer.Exit(FAILED)


def run_side(
    context: typer.Context,
    written: Written,
    folder: Annotated[str, typer.Option(metavar="FOLDER", help="Where what it captures is written.")],
    windows: Windows = None,
    state: Annotated[str | None, typer.Option(help="A copy of a checkpoint that it continues.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Run by the clock for so long.")] = None,
    fed: Annotated[str | None, typer.Option(help="The folder of the side whose tuples it gets.")] = None,
) -> None:
    """Run one side of a comparison: what `ridgeline compare` starts."""
    from ridgeline.testing.run_files import write_fed, write_side
    from ridgeline.testing.run_local import properties_of_others, run_local

    found = load_configured(context, written)
    resolved = found.resolve()
    more: dict[str, Any] = {}
    ports: dict[str, str] = {}
    if state is not None:
        from ridgeline.testing.continued import continuing, ports_fed

        plan = found.plan()
        more = continuing(plan, state, seconds, fed)
        ports = {} if fed is None else ports_fed(plan)
    with resolved.reporting():
        run = run_local(
            found.app,
            properties=properties_of_others(resolved.properties, more.get("inputs", ())),
            attributes=resolved.attributes,
            capture=True,
            **{"windows": windows, **more},
        )
    write_side(run.captured, Path(folder), ports)
    if state is not None and fed is None:
        write_fed(run.captured, Path(folder), ended=has_ended(run))


def has_ended(run: LocalRun) -> bool:
    """Whether all inputs of a run have finished."""
    ended = [event for event in run.events if isinstance(event, ApplicationEnded)]
    return bool(ended) and ended[-1].outcome == "finished"


def _check_state(state: str | None, lasting: str | None, windows: int | None) -> float | None:
    """The seconds of `--for`; None without. Raises CommandError."""
    from ridgeline.api.support.duration import parse_duration

    if state is None:
        if lasting is not None:
            msg = "`--for` is for runs that begin with `--state`; give a checkpoint, or leave it out"
            raise CommandError(msg)
        return None
    if not Path(state).is_dir():
        msg = f"`--state {state}`: there is no such folder; give what `--checkpoint` of `ridgeline run` "
        raise CommandError(msg + "was given")
    if lasting is None and windows is None:
        msg = "`--state` needs `--for` or `--windows`: inputs that never finish would have no end"
        raise CommandError(msg)
    try:
        seconds = None if lasting is None else parse_duration(lasting)
    except ValueError as error:
        msg = f"`--for`: {error}"
        raise CommandError(msg) from None
    if seconds is not None and seconds <= 0:
        msg = f"`--for`: a time above zero is needed; got `{lasting}`"
        raise CommandError(msg)
    return seconds


def _run_from(
    state: str, seconds: float | None, commands: dict[str, list[str]], folders: dict[str, Path]
) -> None:
    """Run A and then B, which gets what A's inputs have emitted, from copies of one checkpoint.

    Raises CommandError if one has failed, or the checkpoint cannot be copied.
    """
    from ridgeline.engine.driver.checkpoint.upkeep.copying import copy

    copies = {name: f"{folder}-state" for name, folder in folders.items()}
    try:
        copy(state, copies["A"])
        copy(copies["A"], copies["B"])
    except (OSError, RidgelineError) as error:
        raise CommandError(f"`--state {state}`: {error}") from error
    more = {"A": [] if seconds is None else ["--seconds", str(seconds)], "B": ["--fed", str(folders["A"])]}
    for name in ("A", "B"):
        _run({name: [*commands[name], "--state", copies[name], *more[name]]}, folders)


def _repeated(option: str, values: Sequence[str] | None) -> list[str]:
    return [word for value in values or () for word in (option, value)]


def _split(option: str, text: str) -> list[str]:
    """The words of one side's options. Raises CommandError."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CommandError(
            f"`{option}` takes options as a shell does; got `{text}`: {error}; close what is quoted"
        ) from error


def _run(commands: dict[str, list[str]], folders: dict[str, Path]) -> None:
    """Run both sides at the same time, and print what they have printed to standard error.

    Raises CommandError if one has failed.
    """
    with ExitStack() as ending:
        running = {}
        for name, words in commands.items():
            folders[name].mkdir(mode=0o700)
            command = [
                sys.executable,
                "-P",
                "-m",
                "ridgeline",
                SIDE,
                words[0],
                "--folder",
                str(folders[name]),
            ]
            printed = ending.enter_context((folders[name] / _PRINTED).open("wb"))
            running[name] = subprocess.Popen(  # noqa: S603  our own command
                [*command, *words[1:]], stdout=printed, stderr=subprocess.STDOUT
            )
            ending.callback(_end, running[name])
        failed = {f"`{name}`": str(process.returncode) for name, process in running.items() if process.wait()}
    console = make_console()
    for name in commands:
        folder = folders[name]
        for line in (folder / _PRINTED).read_text(errors="replace").splitlines():
            console.print(f"{name}: {line}")
    if failed:
        what = f"{' and '.join(failed)} did not run to the end"
        found = f"exit code {' and '.join(failed.values())}; what was printed stands above"
        raise CommandError(f"{what}; {found}; mend that first")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what still runs, as after Ctrl-C."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
