"""Run benchmarks: `python -m benchmarks [NAME ...]`, `python -m benchmarks list`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from benchmarks.catalog import GROUPS, Catalog, choose, load
from benchmarks.frame import Benchmark
from benchmarks.machine import describe, one_line
from benchmarks.processes import run_contestant
from benchmarks.summary import Ran, as_json
from benchmarks.tables import show_begin, show_end, show_ran

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    """Run what the arguments name; 0, 2 for a name that does not exist, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Benchmarks of Ridgeline beside their alternatives."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="which; none: all; `list`: say which there are"
    )
    parser.add_argument(
        "--rounds", type=int, metavar="N", help="rounds of each benchmark, whatever its budget says"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="try whether they work: one round of a few windows, nothing is judged",
    )
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    catalog = load()
    for module, fault in catalog.faults.items():
        console.print(f"[yellow]left out: `{module}`: {escape(fault)}[/]", highlight=False, soft_wrap=True)
    if arguments.names == ["list"]:
        for benchmark in catalog.benchmarks.values():
            console.print(
                f"{benchmark.name:<14} {benchmark.title}", highlight=False, markup=False, soft_wrap=True
            )
        for name, members in GROUPS.items():
            console.print(f"{name:<14} {', '.join(members)}", highlight=False, markup=False, soft_wrap=True)
        return 0
    try:
        chosen = choose(catalog, arguments.names)
    except LookupError as error:
        console.print(f"[red]error:[/] {escape(str(error.args[0]))}", highlight=False, soft_wrap=True)
        return 2
    return _run(console, catalog, chosen, arguments.rounds, quick=arguments.quick)


def _run(
    console: Console, catalog: Catalog, chosen: Sequence[Benchmark], rounds: int | None, *, quick: bool
) -> int:
    machine = describe()
    began = datetime.now().astimezone()
    file = RESULTS / f"{began:%Y-%m-%dT%H-%M-%S}.json"
    console.print(one_line(machine), style="dim", highlight=False, soft_wrap=True)
    finished: list[tuple[Benchmark, list[Ran]]] = []
    work = Path(tempfile.mkdtemp(prefix="ridgeline-bench-"))
    code = 0
    try:
        for benchmark in chosen:
            ran: list[Ran] = []
            finished.append((benchmark, ran))
            show_begin(console, benchmark)
            run = partial(run_contestant, benchmark, catalog.modules[benchmark.name], work=work, quick=quick)
            with console.status("") as status:
                for now, one in _rounds(benchmark, run, 1 if quick else rounds):
                    status.update(f"  {now}")
                    if one is not None:
                        ran.append(one)
                        show_ran(console, benchmark, one)
            shutil.rmtree(work / "data" / benchmark.name, ignore_errors=True)
            _write(file, machine, began, finished, quick=quick)
    except KeyboardInterrupt:
        console.print("\n[yellow]interrupted: what there is until here[/]")
        code = 130
    finally:
        shutil.rmtree(work, ignore_errors=True)
    show_end(console, finished, judged=not quick)
    if finished:
        _write(file, machine, began, finished, quick=quick)
        console.print(f"written to {file}", highlight=False, soft_wrap=True)
    return code


def _rounds(
    benchmark: Benchmark, run: Callable[..., Ran], rounds: int | None
) -> Iterator[tuple[str, Ran | None]]:
    """Contestants in turn: what begins (None), then what came out.

    `rounds` overrules the benchmark's own number and its budget.

    `run(contestant, number)` runs one, None as its name is the preparation.
    """
    began = time.monotonic()
    longest = 0.0
    if benchmark.prepare is not None:
        yield "prepare", None
        made = run(None, 0)
        if made.error:
            yield "prepare", made
            return
    for number in range(rounds or benchmark.rounds):
        round_began = time.monotonic()
        if number and rounds is None and round_began - began + longest > benchmark.budget_seconds:
            return
        for contestant in benchmark.contestants:
            yield f"{contestant}, round {number + 1} of {rounds or benchmark.rounds}", None
            yield contestant, run(contestant, number)
        longest = max(longest, time.monotonic() - round_began)


def _write(
    file: Path,
    machine: dict[str, object],
    began: datetime,
    finished: Sequence[tuple[Benchmark, Sequence[Ran]]],
    *,
    quick: bool,
) -> None:
    file.parent.mkdir(exist_ok=True)
    content = {
        "began": began.isoformat(timespec="seconds"),
        "seconds": round((datetime.now().astimezone() - began).total_seconds(), 1),
        "quick": quick,
        "machine": machine,
        "benchmarks": [as_json(benchmark, rounds, judged=not quick) for benchmark, rounds in finished],
    }
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
