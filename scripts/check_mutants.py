"""Plant bugs one by one in a copy of the code, and look whether the quick tests notice each: run by hand.

`python scripts/check_mutants.py` plants all of them, `... check_mutants.py NAME ...` some. Each says which
tests are to notice it. What is not noticed is printed, and the exit code is 1. A bug that cannot be planted,
since the code has changed, is an error: mend its text here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = "src/ridgeline"
_LONGEST_SECONDS = 900


class Mutant(NamedTuple):
    """A bug: in a file of the package, this text becomes another one. `tests`: arguments of pytest."""

    file: str
    text: str
    becomes: str
    tests: str


_POWER = "tests/engine/driver/test_power_cuts.py"
_ORDER = "tests/operators/test_file_output_order.py"
_HOSTILE = "tests/engine/exchange/test_hostile_peers.py"
_CONNECTIONS = "tests/service/http/test_connections.py"

MUTANTS = {
    "state-file-not-synced": Mutant(
        "engine/files/storage.py",
        "file.writelines(parts)\n            file.flush()\n            os.fsync(file.fileno())",
        "file.writelines(parts)\n            file.flush()",
        _POWER,
    ),
    "folder-not-synced-after-create": Mutant(
        "engine/files/storage.py",
        "        _sync_folder(folder)\n        return True",
        "        return True",
        _POWER,
    ),
    "folders-not-synced-where-they-lie": Mutant(
        "api/support/files.py", "            return\n        sync_folder(path)", "            return", _POWER
    ),
    "plan-files-of-later-drivers-removed": Mutant(
        "engine/process/plan_files.py",
        " and _epoch_of(one) <= epoch",
        "",
        "tests/engine/process/test_plan_files.py",
    ),
    "edits-of-queries-kept-for-good": Mutant(
        "plan/change/shorter_edits.py",
        "own = _undone(left, place)",
        "own = ()",
        "tests/plan/change/test_shorter_edits.py",
    ),
    "record-not-synced": Mutant("engine/files/storage.py", "        os.fdatasync(self._file)\n", "", _POWER),
    "state-folder-not-settled": Mutant(
        "engine/driver/checkpoint/journal.py", "            if settles:\n", "            if False:\n", _POWER
    ),
    "segment-names-not-synced": Mutant(
        "operators/_file_publisher.py",
        "            self._files.sync(self._folder)\n",
        "            pass\n",
        _ORDER,
    ),
    "published-without-asking-for-the-owner": Mutant(
        "operators/_file_publisher.py",
        "            self._context.check_owner()\n            self._files.move(source, target)",
        "            self._files.move(source, target)",
        _ORDER,
    ),
    "marker-before-the-file": Mutant(
        "operators/_file_publisher.py",
        "            self._context.check_owner()\n            self._files.move(source, target)",
        "            self._context.check_owner()\n"
        "            self._marker.move(segments[-1].window)\n"
        "            self._files.move(source, target)",
        _ORDER,
    ),
    "name-of-the-file-not-synced": Mutant(
        "operators/_file_publisher.py", "        self._files.sync(self._root)\n", "", _ORDER
    ),
    "rows-of-void-windows-stay": Mutant(
        "operators/_file_publisher.py",
        "            take_back(self._files, self._folder, names, rewound, self._context)\n",
        "",
        "tests/simulation/test_seeds.py -k rewinds",
    ),
    "reports-of-a-late-slot-taken": Mutant(
        "engine/driver/slots/executor.py",
        "if slot == self._slots.spare and is_of_windows(message):",
        "if False and is_of_windows(message):",
        "tests/simulation/test_seeds.py",
    ),
    "void-attempts-reported": Mutant(
        "stram/slot_attempts.py",
        "return request is not None and request.attempt == attempt",
        "return request is not None",
        "tests/stram tests/simulation/test_seeds.py",
    ),
    "any-token-will-do": Mutant(
        "service/http/guard.py",
        "return hmac.compare_digest(given, token.encode())",
        "return bool(given)",
        "tests/service/http",
    ),
    "any-proof-will-do": Mutant(
        "engine/exchange/connection.py",
        "if not hmac.compare_digest(proof, self._proof(side)):",
        "if not proof:",
        _HOSTILE,
    ),
    "strangers-without-a-limit": Mutant(
        "engine/exchange/sockets.py",
        "if self._strangers and (few or len(self._strangers) >= self._most_strangers):",
        "if False:",
        _HOSTILE,
    ),
    "connections-without-a-limit": Mutant(
        "service/http/connections.py",
        "if self._number > self._most or descriptors_are_few(number):",
        "if False:",
        _CONNECTIONS,
    ),
    "requests-waited-for-without-end": Mutant(
        "service/http/connections.py",
        "if now - idle_since <= self._request_seconds:",
        "if True:",
        f"{_CONNECTIONS} -k dribbles",
    ),
    "files-of-others-trusted": Mutant(
        "api/support/trust.py",
        "    if not found.st_mode & _WRITABLE and found.st_uid == os.geteuid():\n        return",
        "    return",
        "tests/api/support/test_trust.py",
    ),
    "watermark-of-the-fastest": Mutant(
        "engine/operator/watermarks.py",
        "time, idle = _least(",
        "time, idle = max(",
        "tests/testing/test_watermarks.py",
    ),
    "round-robin-from-the-same": Mutant(
        "engine/exchange/routing.py",
        "first = (route.route.index - self._start - self._seen) % route.route.of",
        "first = route.route.index",
        "tests/engine/exchange",
    ),
    "removed-keys-come-back": Mutant(
        "engine/state/segment_compaction.py",
        "kept = kept[self._gathered(_Chunk(ranges, kept), _orders).array != TOMBSTONE]",
        "pass",
        "tests/engine/state",
    ),
    "sums-not-checked-by-key": Mutant(
        "operators/sum_key_val.py",
        "columns = [sums(column, index, len(keys)) for column in batch.columns[1:]]\n        known",
        "columns = [sums(column, index * 0, len(keys)) for column in batch.columns[1:]]\n        known",
        "tests/operators/test_sum_key_val.py",
    ),
    "losses-counted-once-a-window": Mutant(
        "stram/slot_attempts.py",
        "            if not self._void or self._unreported is not None:\n",
        "            if True:\n",
        "tests/stram/test_slot_attempts.py",
    ),
}


def plant(mutant: Mutant, folder: Path) -> Path:
    """A copy of the code with a bug in it. Raises LookupError if its text is not there once."""
    copy = folder / "src"
    shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / _PACKAGE / mutant.file
    code = file.read_text(encoding="utf-8")
    if (found := code.count(mutant.text)) != 1:
        raise LookupError(f"`{mutant.file}` has the text {found} times, not once: {mutant.text!r}")
    file.write_text(code.replace(mutant.text, mutant.becomes), encoding="utf-8")
    return copy


def noticed(mutant: Mutant) -> bool:
    """Whether tests notice the bug. Raises LookupError if it cannot be planted or tests cannot run."""
    with tempfile.TemporaryDirectory() as folder:
        copy = plant(mutant, Path(folder))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        ran = subprocess.run(
            [*command, "-m", "not slow and not spark and not crash", *mutant.tests.split()],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(copy), "TEST_PATIENCE_SECONDS": "30"},
            capture_output=True,
            text=True,
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    if ran.returncode not in {0, 1}:
        raise LookupError(
            f"tests could not run (exit code {ran.returncode}):\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        )
    return ran.returncode == 1


def main() -> int:
    """Plant what the arguments name; 1 if something is not noticed, 2 if it cannot be planted."""
    parser = argparse.ArgumentParser(description="Plant bugs, and look whether quick tests notice them.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; none: all")
    names = parser.parse_args().names or list(MUTANTS)
    if unknown := [name for name in names if name not in MUTANTS]:
        parser.error(f"there is no `{unknown[0]}`; there are {', '.join(MUTANTS)}")
    missed, broken = [], []
    for name in names:
        try:
            found = noticed(MUTANTS[name])
        except (LookupError, subprocess.TimeoutExpired) as error:
            broken.append(name)
            print(f"{name}: {error}", flush=True)
            continue
        print(f"{name}: {'noticed' if found else 'NOT NOTICED'}", flush=True)
        missed += [] if found else [name]
    print(f"{len(names)} bugs planted, {len(names) - len(missed) - len(broken)} noticed", flush=True)
    return 2 if broken else bool(missed)


if __name__ == "__main__":
    sys.exit(main())
