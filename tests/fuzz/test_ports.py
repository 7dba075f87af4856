"""Damaged conversations with each listening port of an application that runs: it does not mind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.depth import deep
from support.fuzz.attack import Victim, assault
from support.waiting import wait_until

pytestmark = pytest.mark.slow

INPUTS = 20_000
KIB = 48 * 1024
"""What allocators and caches may keep; a leak of one connection's state each is more."""


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Victim]:
    found = Victim(tmp_path)
    yield found
    found.kill()


def test_damaged_conversations_cost_an_application_nothing(victim: Victim) -> None:
    for _ in assault(victim, 1_000, "warm up"):
        pass
    before, windows = victim.used(), victim.windows()
    sent = 0
    for one in assault(victim, deep(INPUTS), "ports"):
        sent += one.sent["inputs"]
        assert victim.process.poll() is None, one.name
    assert sent >= deep(INPUTS) * 0.99
    after_all = victim.windows()
    assert after_all > windows, "no window was committed meanwhile"
    wait_until(lambda: victim.windows() > after_all + 5, "windows after the attack")
    threads = 40  # the pool of the web service has so many at most
    wait_until(lambda: not _more(victim.used(), before, "threads", threads), "threads to end")
    wait_until(lambda: not _more(victim.used(), before, "descriptors", 20), "descriptors to be closed")
    assert not _more(victim.used(), before, "memory", KIB)
    assert victim.log.stat().st_size < 2_000_000
    assert '"ended": "in order"' in victim.end()
    assert "Traceback" not in victim.log.read_text(errors="replace")


def _more(
    now: dict[str, list[int]], before: dict[str, list[int]], what: str, by: int
) -> list[tuple[int, int]]:
    """The processes that use more of something than they did, by more than this."""
    return [pair for pair in zip(before[what], now[what], strict=True) if pair[1] - pair[0] > by]
