"""A process that writes to a scratch place and ends itself by SIGKILL, at a point that it is given."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
from random import Random
from typing import Any, NamedTuple

import cloudpickle

from ridgeline.connect.partitioned_output import PartitionedOutput
from ridgeline.connect.window_output import WindowOutput
from ridgeline.engine.files.storage import LocalStorage
from ridgeline.testing.connectors.outputs import Trial, rows_of_windows
from ridgeline.testing.connectors.strikes import (
    CONTAINER_POINTS,
    DRIVER_POINTS,
    LINES,
    SINK_POINTS,
    Strikes,
)
from ridgeline.testing.connectors.target import ConnectorTarget, Outcome

_FIRST_WINDOWS = 8
_WINDOWS_OF_A_KILL = 4
"""More than a start commits before it is killed."""
_MOST_NUMBER, _MOST_LINE = 3, 12
_LINES_SHARE = 4
"""So often a line of the sink is among the points that are drawn."""
_ENDED = 3
"""Exit code of a process that has come to the end of its application."""
_NAME = "kills of the process"


class Kills(NamedTuple):
    """How many processes were to be killed, and how many were."""

    asked: int
    done: int


class _Place(ConnectorTarget):
    """The place in the process: an operator, made by pickle again for each start."""

    def __init__(self, application: str, made: bytes) -> None:
        self.application, self._made = application, made

    def output(self) -> WindowOutput:
        found: WindowOutput = pickle.loads(self._made)
        return found


def kill_processes(place: ConnectorTarget, count: int, seed: int) -> tuple[Kills, Outcome]:
    """Kill a process that writes `count` times, start it again each time, and compare what is there.

    The place is closed at the end.
    """
    done = 0
    try:
        dice = Random(seed)  # noqa: S311  no secret
        trial = Trial(place)
        trial.windows = rows_of_windows(_FIRST_WINDOWS + _WINDOWS_OF_A_KILL * count)
        points = _points(place.output())
        with tempfile.TemporaryDirectory(prefix="ridgeline-prove-") as folder:
            while done < count:
                point = dice.choice(points)
                most = _MOST_LINE if point == LINES else _MOST_NUMBER
                number = 0 if point.startswith(("open", "mark")) else dice.randrange(most)
                if not _killed(place, folder, len(trial.windows), point, number):
                    break
                done += 1
            else:
                _killed(place, folder, len(trial.windows), "", 0)
        trial.expect()
    except Exception as error:  # noqa: BLE001  a check that fails is a part of the report
        text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        return Kills(count, done), Outcome(_name(done), f"after {done} kills: {text}", "none")
    finally:
        place.close()
    return Kills(count, done), trial.outcome(_name(done))


def _name(done: int) -> str:
    return f"{done} {_NAME}"


def _points(output: WindowOutput) -> list[str]:
    """The points at which it may be killed and not have ended."""
    points = [point for point in (*CONTAINER_POINTS, *DRIVER_POINTS) if not point.startswith("close")]
    if isinstance(output, PartitionedOutput):
        return [*points, *[LINES] * _LINES_SHARE]
    return [point for point in points if point not in SINK_POINTS]


def _killed(place: ConnectorTarget, folder: str, windows: int, point: str, number: int) -> bool:
    """Run a process until it is killed. False: it has come to its end. Raises AssertionError if it failed."""
    output = place.output()
    module = sys.modules.get(type(output).__module__)
    if module is not None and not module.__name__.startswith("ridgeline."):
        cloudpickle.register_pickle_by_value(module)  # a script, which cannot be imported there
    try:
        made = cloudpickle.dumps(output)
    finally:
        if module is not None and module.__name__ in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.unregister_pickle_by_value(module)
    request = pickle.dumps((sys.path, place.application, made, folder, windows, point, number))
    command = [sys.executable, "-m", "ridgeline.testing.connectors.killed"]
    ran = subprocess.run(command, input=request, capture_output=True, check=False)  # noqa: S603  our own file
    if ran.returncode == -signal.SIGKILL:
        return True
    if ran.returncode != _ENDED:
        last = ran.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise AssertionError(f"the process has failed with exit code {ran.returncode}: {''.join(last)}")
    return False


def _end_here() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _run(request: Any) -> None:
    """Run the application of the request to its end, or to the point at which this process is killed."""
    _, application, made, folder, windows, point, number = request
    trial = Trial(_Place(application, made))
    trial.windows = rows_of_windows(windows)
    strikes = Strikes(point, number, _end_here)
    trial.run_to_end(strikes, LocalStorage(folder))


if __name__ == "__main__":
    found = pickle.load(sys.stdin.buffer)
    sys.path[:] = found[0]
    _run(found)
    sys.exit(_ENDED)
