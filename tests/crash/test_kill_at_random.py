"""Programs at random of runs, kills, full disks, rewinds and repartitions, beside an oracle.

They have inputs of all kinds, regions, queues. `python -m support.crash.at_random SEED` shows one.
"""

import os
import subprocess
import sys

import pytest

from support.depth import deep
from support.paths import SUPPORT
from support.services.fixtures import kafka, postgres

__all__ = ["kafka", "postgres"]

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.fixture
def programs(tmp_path, chance):
    """`programs(...)` runs some; `servers` are variables of the environment."""

    def run(**servers):
        seed = chance.randrange(10**9)
        ran = subprocess.run(
            [sys.executable, "-m", "support.crash.at_random", f"{seed}:{seed + deep(4)}", "--keep", tmp_path],
            env={
                **os.environ,
                "PYTHONPATH": str(SUPPORT.parent),
                **servers,
            },  # no folder that another test left
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(ran.stdout)
        assert ran.returncode == 0, ran.stdout

    return run


@pytest.mark.guide("002", "Exactly Once")
def test_no_program_loses_doubles_or_changes_a_row(programs):
    programs()


def test_no_program_with_servers_does(programs, kafka, postgres):
    programs(ALL_INPUTS_KAFKA=kafka.servers, ALL_INPUTS_POSTGRES=postgres.database())
