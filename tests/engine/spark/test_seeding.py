import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from support.waiting import PATIENCE_SECONDS

_MODULE = """
import random
import numpy as np
MINE = random.Random()
SEEDED = random.Random(7)
LATER = random.Random()
LATER.seed(7)
GENERATOR = np.random.default_rng()
SEEDED_GENERATOR = np.random.default_rng(7)
STATE = np.random.RandomState()
SEEDED_STATE = np.random.RandomState(7)
SPAWNED = np.random.Generator(np.random.Philox(np.random.SeedSequence().spawn(1)[0]))
STATE.standard_normal()  # keeps a second number for the next call
def default(values=[random.Random()]):
    return values[0].random()
def draw():
    return {
        "random": random.random(), "numpy": np.random.rand(), "normal": np.random.standard_normal(),
        "Random": MINE.random(), "default": default(), "default_rng": GENERATOR.random(),
        "RandomState": STATE.standard_normal(), "Philox": SPAWNED.random(),
        "seeded": [SEEDED.random(), LATER.random(), SEEDED_GENERATOR.random(), SEEDED_STATE.rand()],
    }
"""
_FORKS = """
import gc, json, os
from ridgeline.engine.spark.daemon import preload
from ridgeline.engine.spark.daemon import seed_after_fork
preload("draws")
import draws, numpy
numpy.random.standard_normal()
gc.collect()
seed_after_fork()
gc.freeze()
for _ in range(4):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(draws.draw()).encode())
        os._exit(0)
    print(os.read(reading, 10_000).decode(), flush=True)
    os.wait()
"""


@pytest.fixture(scope="module")
def draws(tmp_path_factory):
    """What four forked processes draw of each kind."""
    folder = tmp_path_factory.mktemp("draws")
    (folder / "draws.py").write_text(_MODULE)
    paths = [str(folder), str(Path(ridgeline.__file__).parent.parent)]
    done = subprocess.run(
        [sys.executable, "-c", _FORKS],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "kind",
    ["random", "numpy", "normal", "Random", "default", "default_rng", "RandomState", "Philox"],
)
def test_each_forked_process_draws_numbers_of_its_own(draws, kind):
    assert len({one[kind] for one in draws}) == len(draws) == 4


def test_a_seed_of_the_authors_is_kept(draws):
    expected = [random.Random(7).random()] * 2
    expected += [np.random.default_rng(7).random(), np.random.RandomState(7).rand()]
    assert [one["seeded"] for one in draws] == [expected] * 4
