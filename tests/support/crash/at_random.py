"""Random programs of runs, kills, full disks, rewinds and repartitions of the application `all_inputs`.

Each run is a child: it dies at one of its file operations, or at some moment. `python -m
support.crash.at_random SEED` shows a program; `FIRST:END` runs many.
"""

import argparse
import errno
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from ridgeline import RidgelineError
from ridgeline.api.clock import SystemClock
from ridgeline.plan.edits import Repartition
from ridgeline.plan.planner import plan_application
from ridgeline.testing import run_local
from support.crash import all_inputs
from support.crash.all_inputs import KEYS, KINDS, ONCE, REPLAYED
from support.crash.processes import committed
from support.manifests import last_of

REFUSED = re.compile("cannot rewind|cannot be rewound|would be given twice|its files would stay")
NAMED = re.compile(r"rewind to window (\d+) or later|it can be rewound to ([\d, ]+)")
SECONDS = 240.0
"""So long a run, and the last ones, may take."""


class WrongError(AssertionError):
    """Something is lost, doubled, changed, or does not go on."""


class Faults:
    """What befalls a child: at its file operation `at` it dies, or `full` of them find no space."""

    def __init__(self, folder, at, full):
        self.folder, self.at, self.full, self.count = str(folder), at, full, 0
        sys.addaudithook(self.see)

    def see(self, event, given):
        writes = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR)
        if not writes and event not in {"os.rename", "os.remove", "os.link", "os.mkdir", "os.truncate"}:
            return
        if not str(given[0]).startswith(self.folder) or str(given[0]).endswith("said"):
            return
        self.count += 1
        if self.full and self.at <= self.count < self.at + self.full and (writes or event == "os.mkdir"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(given[0]))
        if not self.full and self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class Program:
    """One program, in a folder of its own."""

    def __init__(self, seed, folder, log):
        self.folder, self.log, self.counts, self.number = Path(folder), log, Counter(), 0
        self.chance = chance = random.Random(f"at random {seed}")
        kinds = chance.sample(KINDS, chance.choice((1, 2, 2, 3)))
        if {"table", "changes"} <= set(kinds):  # the table is one
            kinds.remove("table")
        parts = [*kinds, "out"]
        self.shape = {
            "kinds": kinds,
            "decoupled": chance.sample(parts, chance.randint(0, len(parts))),
            "partitions": chance.choice((1, 1, 2, 3)),
            "attributes": {
                "windows_kept": chance.choice((1, 5, 1000)),
                "snapshot_interval": chance.choice((1, 2, 8)),
                "windows_in_flight": chance.choice((1, 2, 3)),
            },
            "roll": chance.choice((0, 0.1, 1.0)),
            "keep": chance.choice(("1h", "300ms")),
            "queue": chance.random() < 0.3,
        }
        self.records = {
            f"{kind}.window_records": "5"
            for kind in kinds
            if kind not in {"generated", "pushed", "replayed"} and chance.random() < 0.3
        }

    def child(self, function, *given, faults=(0, 0), kill_after=None):
        """Its exit code, -9 if it was killed, 3 after an error that says what to do; and what it said."""
        said = self.folder / "said"
        said.unlink(missing_ok=True)
        pid = os.fork()
        if not pid:
            self._be(function, given, faults, said)
        end = time.monotonic() + (SECONDS if kill_after is None else kill_after)
        while not (status := os.waitpid(pid, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                status = os.waitpid(pid, 0)
                if kill_after is None:
                    raise WrongError("it hangs")
                return -9, ""
            time.sleep(0.002)
        return os.waitstatus_to_exitcode(status[1]), json.loads(said.read_text()) if said.exists() else ""

    def _be(self, function, given, faults, said):
        code = 1
        try:
            for number in (1, 2):
                os.dup2(os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            if faults[0]:
                Faults(self.folder, *faults)
            said.write_text(json.dumps(function(*given)))
            code = 0
        except RidgelineError as error:
            said.write_text(json.dumps(f"{type(error).__name__}: {error}"))
            code = 3
        except BaseException:  # noqa: BLE001  it is a process of its own
            said.write_text(json.dumps(traceback.format_exc()))
        finally:
            os._exit(code)

    def rows(self, name="out"):
        """What readers of an output see: each once, at any moment."""
        found = []
        for path in (self.folder / name).glob("*.jsonl"):
            found += [tuple(json.loads(line).values()) for line in path.read_text().splitlines()]
        counts, numbers = {(one[0], one[1], one[3]) for one in found}, {(one[0], one[2]) for one in found}
        if not len(found) == len(counts) == len(numbers):
            raise WrongError(f"`{name}` has rows, numbers or counts twice")
        return set(found)

    def run(self, which, windows=None, changes=None, seed=None, resume=None):
        """A run of one of the two applications, in a child."""
        run_local(
            getattr(all_inputs, which)(str(self.folder)),
            checkpoint=str(self.folder / f"{which}-checkpoint"),
            clock=SystemClock(),
            windows=windows,
            interleave=seed,
            changes=changes,
            properties=self.records if which == "application" else {},
            **(resume or {}),
        )

    def done(self, function, *given):
        """What a child says that nothing befalls."""
        code, said = self.child(function, *given)
        if code:
            raise WrongError(said)
        return said

    def regions(self):
        return [
            one.name for one in plan_application(all_inputs.application(str(self.folder))).logical.regions
        ]

    def passed_over(self, which):
        """The windows that rewinds have left out so far: each that has counted leaves some out."""
        folder = self.folder / f"{which}-checkpoint"
        found = [last_of(one) for one in (folder, *folder.glob("regions/*")) if (one / "run.json").exists()]
        return sum(last.passed_over for last in found if last is not None)

    def back(self, which):
        """A rewind to some window of late, if there is one."""
        folder = self.folder / f"{which}-checkpoint"
        last = max(map(committed, [folder, *folder.glob("regions/*")]), default=-1)
        if last < 0:
            return {}
        regions = self.done(self.regions) if which == "application" else []
        region = {"region": self.chance.choice(sorted(regions))} if regions else {}
        return {**region, "from_window": max(0, last - self.chance.choice((0, 1, 2, 5, 20, 100)))}

    def act(self):
        """One action: rows that come, then a run that may rewind, and what befalls it."""
        chance, self.number = self.chance, self.number + 1
        if chance.random() < 0.8:
            self.done(all_inputs.give, self.folder, self.shape, chance.randint(1, 60))
        which = "reader" if self.shape["queue"] and chance.random() < 0.35 else "application"
        windows = None if which == "reader" else chance.choice((1, 3, 10, 30))
        repartitions = which == "application" and chance.random() < 0.25
        changes = {0: [Repartition("tally", chance.choice((1, 2, 3)))]} if repartitions else None
        seed = chance.choice((None, chance.randrange(1000)))
        resume = self.back(which) if self.number > 2 and chance.random() < 0.4 else {}
        kind, at = chance.random(), 1 + int(chance.choice((10, 40, 200)) * chance.random())
        faults = (at, 0) if kind < 0.45 else (at, chance.choice((1, 3, 20))) if kind < 0.55 else (0, 0)
        moment = chance.uniform(0.05, 1.5) if kind > 0.8 or which == "reader" else None
        moment = chance.uniform(2.0, 4.0) if faults[1] else moment
        before = self.rows()
        while True:
            self.log(f"{self.number}: {which} {windows} {changes} {resume} {faults} {moment}")
            given = which, windows, changes, seed, resume
            passed_over = self.passed_over(which)
            code, said = self.child(self.run, *given, faults=faults, kill_after=moment)
            self.log(f"   {code} {said}")
            rewound = self.passed_over(which) > passed_over
            if resume := self._judged(code, said, faults, resume, before, rewound):
                continue
            return

    def _judged(self, code, said, faults, resume, before, rewound):
        """Whether what came of a run is right; the rewind that is to be tried next.

        `rewound`: the rewind has counted, so a disk was full only after it.
        """
        refused = code == 3 and resume and REFUSED.search(said)
        rewinds = "refused" if refused else "accepted" if code == 0 else "killed"
        self.counts["kills"] += code == -9
        self.counts[f"rewinds {rewinds}"] += bool(resume)
        full = faults[1] and "space" in str(said)
        if code not in {0, -9} and not full and not refused:
            raise WrongError(said)
        if (gone := before - self.rows()) and (not resume or refused or (full and not rewound)):
            raise WrongError(f"rows are gone that were published: {sorted(gone)[:5]}; {said}")
        named = NAMED.search(said) if refused else None
        if named is None:
            return {}
        works = [int(one) for one in re.findall(r"\d+", named[1] or named[2])]
        self.counts["rewinds to a window that was named"] += 1
        return {**resume, "from_window": works[-1]} if works[-1] != resume["from_window"] else {}

    def finish(self):
        """Run until all is there, and compare it with what must be."""
        self.done(all_inputs.give, self.folder, self.shape, 5)
        total, kinds = all_inputs.given(self.folder), self.shape["kinds"]
        ends = {kind: REPLAYED if kind == "replayed" else total for kind in kinds}
        wanted = {(kind, number) for kind in kinds if kind != ONCE for number in range(ends[kind])}
        wanted |= {(ONCE, total - 1)} if ONCE in kinds else set()
        outputs = {"application": "out", "reader": "read"} if self.shape["queue"] else {"application": "out"}
        for which, name in outputs.items():
            late = time.monotonic() + SECONDS
            while missing := wanted - {(one, number) for one, _, number, _ in self.rows(name)}:
                if time.monotonic() > late:
                    raise WrongError(f"{len(missing)} rows are missing in `{name}`: {sorted(missing)[:8]}")
                code, said = self.child(self.run, which, kill_after=6)
                if code not in {0, -9}:
                    raise WrongError(said)
        rows = self.rows()
        if self.shape["queue"] and rows != self.rows("read"):
            raise WrongError(f"`read` is not `out`: {sorted(rows ^ self.rows('read'))[:5]}")
        for kind in kinds:
            for key in range(KEYS):
                found = sorted((one[3], one[2]) for one in rows if one[:2] == (kind, key))
                counts, numbers = [count for count, _ in found], [number for _, number in found]
                if kind == "files":  # several are read at once
                    numbers.sort()
                right = (
                    numbers == list(range(key, ends[kind], KEYS))
                    if kind != ONCE
                    else numbers == sorted(numbers)
                )
                if counts != list(range(1, len(found) + 1)) or not right:
                    raise WrongError(f"{kind} {key}: {found}")

    def go(self):
        """The whole program. Raises WrongError."""
        self.done(all_inputs.prepare, self.folder, self.shape)
        for _ in range(self.chance.choice((4, 8, 16))):
            self.act()
        self.finish()


def main():
    """Run what the command line says; 1 if a seed fails."""
    parser = argparse.ArgumentParser(prog="python -m support.crash.at_random", description=__doc__)
    parser.add_argument("seeds", help="one seed, or FIRST:END")
    parser.add_argument("--until", default="99", help="no program begins later: HH:MM")
    parser.add_argument("--keep", help="a folder for what has failed")
    given = parser.parse_args()
    first, _, end = given.seeds.partition(":")
    total, wrong = Counter(), 0
    for seed in range(int(first), int(end or int(first) + 1)):
        if time.strftime("%H:%M") >= given.until:
            break
        with tempfile.TemporaryDirectory(prefix=f"at-random-{seed}-", ignore_cleanup_errors=True) as folder:
            program = Program(seed, folder, (lambda _text: None) if end else print)
            program.log(f"seed {seed}: {program.shape}")
            try:
                program.go()
            except WrongError as error:
                wrong += 1
                print(f"seed {seed}, action {program.number}: {error}", flush=True)
                if given.keep:
                    shutil.copytree(folder, Path(given.keep, f"{seed}-{time.time():.0f}"))
        total.update({"programs": 1, "runs": program.number} | program.counts)
        print(f"{time.strftime('%T')} {dict(total)}, {wrong} failed", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
