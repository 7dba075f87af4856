"""The example of a loop gives the solution of the equations of page ranks."""

import io

import numpy as np
import pytest
from rich.console import Console

import page_rank
from ridgeline.testing import run_local


@pytest.mark.parametrize("partitions", [1, 3])
def test_ranks_solve_the_equations(partitions):
    printed = io.StringIO()
    console = Console(file=printed, width=100)
    run_local(page_rank.app, attributes={"ranks.partitions": str(partitions)}, console=console)
    lines = (line.split() for line in printed.getvalue().splitlines() if line)
    found = {name: float(rank) for name, rank in lines}
    names = [page.name for page in page_rank.PAGES]
    links = np.zeros((5, 5))
    for column, page in enumerate(page_rank.PAGES):
        for target in page.links.split():
            links[names.index(target), column] = 0.85 / len(page.links.split())
    ranks = np.linalg.solve(np.eye(5) - links, np.full(5, 0.15))
    assert found == pytest.approx(dict(zip(names, ranks, strict=True)), abs=5e-3)
