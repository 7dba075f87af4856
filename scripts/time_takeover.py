"""Time how long a standby on another host takes to replace a driver that is lost. Run it by hand, as root.

    python scripts/time_takeover.py [--rounds N] [CASE ...]

Hosts are network namespaces of this machine. A time is from the loss to the next commit, by this process's
clock. Each round compares the whole output with that of a plain run; the exit code is 1 if one differs.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from ridgeline.testing import services
from support.crash.pairs import (  # type: ignore[import-not-found]
    on_cluster,
    on_folder,
    on_s3,
    stop_processes,
)
from support.waiting import wait_until  # type: ignore[import-not-found]

Loss = Callable[[Any, Any], Callable[[], None]]
Place = Callable[[Path], AbstractContextManager[Any]]


def _killed(_pair: Any, driver: Any) -> Callable[[], None]:
    driver.kill()
    return _nothing


def _host_killed(pair: Any, _driver: Any) -> Callable[[], None]:
    pair.hosts.kill_host("alpha")
    return _nothing


def _stands_still(_pair: Any, driver: Any) -> Callable[[], None]:
    proceed: Callable[[], None] = stop_processes(driver)
    return proceed


def _cut_off(pair: Any, _driver: Any) -> Callable[[], None]:
    pair.hosts.cut("alpha")
    return lambda: pair.hosts.mend("alpha")


def _nothing() -> None:
    pass


def _folder(work: Path) -> AbstractContextManager[Any]:
    return on_folder(work, wait_until)


def _s3(work: Path) -> AbstractContextManager[Any]:
    return on_s3(work, wait_until, services.shared(services.seaweedfs))


def _cluster(work: Path) -> AbstractContextManager[Any]:
    return on_cluster(work, wait_until)


def _cluster_cold(work: Path) -> AbstractContextManager[Any]:
    return on_cluster(work, wait_until, limited=False)


CASES: dict[str, tuple[str, Place, Loss]] = {
    "killed": ("shared folder, local[2]: kill -9 of the driver", _folder, _killed),
    "host": ("shared folder, local[2]: kill -9 of all processes of its host", _folder, _host_killed),
    "still": ("shared folder, local[2]: SIGSTOP of all processes of the driver", _folder, _stands_still),
    "s3-killed": ("S3 (SeaweedFS), local[2]: kill -9 of the driver", _s3, _killed),
    "s3-cut": ("S3 (SeaweedFS), local[2]: the network of its host cut", _s3, _cut_off),
    "cluster": (
        "shared folder, standalone cluster: kill -9 of all processes of its host",
        _cluster,
        _host_killed,
    ),
    "cluster-cold": (
        "as `cluster`, where the driver has all cores, so the standby holds none",
        _cluster_cold,
        _host_killed,
    ),
    "cluster-still": ("shared folder, standalone cluster: SIGSTOP of the driver", _cluster, _stands_still),
}


SETTLE_SECONDS = 10.0
"""A standby has waited for long, so what its start costs is over."""


def measure(place: Place, lose: Loss, work: Path) -> float:
    """The seconds from the loss of a driver to the next commit. Raises if the output is not right."""
    with place(work) as pair:
        first = pair.run("alpha")
        pair.reader.start()
        second = pair.standby("beta", after="6s")  # as by default
        time.sleep(SETTLE_SECONDS)
        pair.go_on(first, second)
        before = time.monotonic()
        mend = lose(pair, first)
        seconds: float = pair.seconds_until_next(second, begin=before)
        pair.go_on(second)
        mend()
        if mend is not _nothing:
            pair.wait(lambda: first.exit_code is not None, "the end of the driver that is fenced off")
        pair.finish(second)
    return seconds


def main() -> int:
    """Run the cases that the arguments name, all of them if none is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", choices=[*CASES, []], help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    wrong = 0
    for name in arguments.cases or CASES:
        title, place, lose = CASES[name]
        times = []
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory(prefix="ridgeline-takeover-") as work:
                try:
                    times.append(measure(place, lose, Path(work)))
                    print(f"{name}: {times[-1]:.1f} s", flush=True)
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    wrong += 1
                    traceback.print_exc()
        shown = ", ".join(f"{one:.1f}" for one in times)
        ends = f"{min(times):.1f} to {max(times):.1f} s" if times else "no time"
        print(f"{name}: {title}: {ends} ({shown})", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
