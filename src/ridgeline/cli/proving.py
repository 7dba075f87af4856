"""The command `prove`: the conformance tests of an application's output, against the user's own server."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ridgeline.api.errors import did_you_mean
from ridgeline.cli.arguments import Written
from ridgeline.cli.configuration import load_configured
from ridgeline.cli.errors import FAILED, CommandError, make_console
from ridgeline.cli.output import write

if TYPE_CHECKING:
    from ridgeline.connect.window_output import WindowOutput
    from ridgeline.testing.connectors.proof import Proof
    from ridgeline.testing.connectors.target import Outcome

_INTERRUPTED = 130
_ENDED = 143


class _EndedError(KeyboardInterrupt):
    """SIGTERM has come: the scratch places are removed, as on Ctrl-C."""


def prove(
    context: typer.Context,
    written: Written,
    sink: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The output operator. Default: the only one with a connector.",
            show_default=False,
        ),
    ] = None,
    kills: Annotated[
        int, typer.Option(min=0, metavar="N", help="How often a process that writes is killed by SIGKILL.")
    ] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="Draws the points at which it is killed.")] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Run the checks with this in their names.", show_default=False),
    ] = None,
    remove_scratch: Annotated[
        bool,
        typer.Option("--remove-scratch", help="Remove what proofs that were killed have left, and end."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Prove an output of an application against its own server: what does it guarantee?

    The conformance tests of connectors write to scratch topics, tables or folders, whose names begin with
    `ridgeline_scratch_`. They are made with the server, credentials and format of the operator, and removed
    at the end, on Ctrl-C too. The application does not run, and its data is not touched.

    Checks kill containers and the driver at each step, and let two drivers write at once. Then a process that
    writes is killed `--kills` times. Your server is not stopped: a relay cuts the connection to it where its
    address allows that, else the check is skipped.

    Example: `ridgeline prove orders.py --sink totals --kills 20`

    Exit codes: 0 the guarantee is shown, 1 it is not, 2 application or output do not fit. Ctrl-C ends it with
    130.
    """
    from ridgeline.connect.scratch import NotProvableError

    operators = {one.name: one.operator for one in load_configured(context, written).plan().logical.operators}
    name, output = _output(operators, sink)
    try:
        left = list(output.scratch_left())
        if remove_scratch:
            _remove(output, left, as_json=as_json)
            return
        with _ending_in_order():
            found = _prove(name, output, left, kills, seed, only or [], as_json=as_json)
    except NotProvableError as error:
        raise CommandError(f"`{name}`: {error}") from error
    except KeyboardInterrupt as interrupt:
        make_console().print("interrupted; the scratch places are removed")
        raise typer.Exit(_ENDED if isinstance(interrupt, _EndedError) else _INTERRUPTED) from None
    if not found.holds:
        raise typer.Exit(FAILED)


def _output(operators: dict[str, Any], sink: str | None) -> tuple[str, WindowOutput]:
    """The output that is named, or the only one. Raises CommandError."""
    from ridgeline.connect.scratch import NotProvableError
    from ridgeline.connect.window_output import WindowOutput

    known = {name: one for name, one in operators.items() if isinstance(one, WindowOutput)}
    if sink is None:
        if len(known) == 1:
            [(name, output)] = known.items()
            return name, output
        msg = "the application has no output with a connector"
        if known:
            msg = f"the application has {len(known)} outputs; name one by `--sink`: "
            msg += ", ".join(f"`{name}`" for name in known)
        raise CommandError(msg)
    if sink in known:
        return sink, known[sink]
    if sink in operators:
        msg = f"`{sink}`: {NotProvableError(type(operators[sink]).__name__)}"
        raise CommandError(msg)
    msg = f"`--sink`: there is no operator `{sink}`; {did_you_mean(sink, known or operators)}"
    raise CommandError(msg)


def _remove(output: WindowOutput, left: list[str], *, as_json: bool) -> None:
    """Remove scratch places that are there."""
    if left:
        output.remove_scratch(left)
    if as_json:
        write(json.dumps({"removed": left}))
        return
    write("\n".join(f"removed {name}" for name in left) or "there are no scratch places")


def _prove(
    name: str,
    output: WindowOutput,
    left: list[str],
    kills: int,
    seed: int,
    only: list[str],
    *,
    as_json: bool,
) -> Proof:
    """Prove it, and print what is found."""
    from ridgeline.testing.connectors.proof import prove as prove_output

    def on_outcome(outcome: Outcome) -> None:
        if not as_json:
            write(f"  {outcome.check}: {outcome.text}")

    where = type(output).__name__
    if not as_json:
        _say_left(left)
        write(f"`{name}` ({where}), in scratch places of its server:")
    found = prove_output(output, kills=kills, seed=seed, only=only, on_outcome=on_outcome)
    if not found.outcomes:
        raise CommandError(
            f"no check has {' or '.join(map(repr, only))} in its name; leave `--only` out to see all"
        )
    if as_json:
        write(json.dumps(_as_dict(name, where, found, left, seed), indent=2))
    else:
        _print(found)
    return found


def _say_left(left: list[str]) -> None:
    """Say which scratch places of others are there."""
    if left:
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""  # noqa: PLR2004  enough to see
        names = ", ".join(f"`{one}`" for one in left[:3])
        write(f"scratch places of other proofs are there: {names}{more}")
        write("if none of them runs any more, `--remove-scratch` removes them")


def _print(found: Proof) -> None:
    """Print the verdict."""
    ran = [one for one in found.outcomes if not one.skipped]
    failed = sum(bool(one.fault) for one in ran)
    skipped = len(found.outcomes) - len(ran)
    for note in found.notes:
        write(f"note: {note}")
    for one in found.kept:
        write(f"note: not removed: {one}")
    counts = f"{len(ran) - failed} checks held, {failed} failed, {skipped} skipped; "
    counts += f"killed {found.kills.done} of {found.kills.asked} times"
    verdict = "proved" if found.holds else "not proved"
    write(f"{verdict}: {found.guarantee}, expected {found.expected} ({counts})")


def _as_dict(name: str, kind: str, found: Proof, left: list[str], seed: int) -> dict[str, Any]:
    """The proof as JSON has it."""
    return {
        "sink": name,
        "connector": kind,
        "scratch": found.scratch,
        "expected": found.expected,
        "guarantee": found.guarantee,
        "holds": found.holds,
        "seed": seed,
        "kills": {"asked": found.kills.asked, "done": found.kills.done},
        "checks": [
            {
                "check": one.check,
                "result": "skipped" if one.skipped else "failed" if one.fault else "held",
                "text": one.skipped or one.fault or (one.twice if one.kind == "repeats" else ""),
                "found": one.kind,
            }
            for one in found.outcomes
        ],
        "notes": list(found.notes),
        "kept": list(found.kept),
        "left": left,
    }


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Let SIGTERM do what Ctrl-C does."""

    def ended(*_: object) -> None:
        raise _EndedError

    try:
        before = signal.signal(signal.SIGTERM, ended)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
