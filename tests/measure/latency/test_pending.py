import numpy as np
import pytest

from ridgeline.measure.age.histogram import Histogram
from ridgeline.measure.latency.fold import TURN, PendingLatencies
from support.measure.simulated_window import graph

TITLES = ["p0", "p1", "u", "S"]


@pytest.mark.parametrize("windows", [1, TURN - 1, TURN, TURN + 1, 3 * TURN + 7])
@pytest.mark.parametrize("asked_every", [1000, 100])
def test_each_latency_is_counted_once_whenever_somebody_asks(windows, asked_every):
    places = {title: (number, 0) for number, title in enumerate(TITLES)}
    topology = graph(
        places, [("p0", "u"), ("p1", "u"), ("u", "S")], unifiers={"u"}, names=dict.fromkeys(TITLES[:3], "P")
    )
    histograms, logical = [Histogram() for _ in TITLES], {name: Histogram() for name in topology.names}
    pending = PendingLatencies(topology, histograms, logical)
    latencies = np.random.default_rng(1).lognormal(-3, 1, (windows, len(TITLES)))
    latencies[::5, 1] = np.nan
    for number, row in enumerate(latencies):
        pending.add(row)
        if number % asked_every == 0:
            pending.count()
    pending.count()
    slowest = np.fmax(latencies[:, 0], latencies[:, 1]) + latencies[:, 2]
    expected = dict(zip(TITLES, latencies.T, strict=True)) | {"P": slowest}
    found = dict(zip(TITLES, histograms, strict=True)) | {"P": logical["P"], "S": logical["S"]}
    for title, histogram in found.items():
        values = expected[title][~np.isnan(expected[title])]
        assert histogram.count == len(values)
        assert not len(values) or histogram.quantile(1.0) == pytest.approx(values.max(), rel=0.01)
