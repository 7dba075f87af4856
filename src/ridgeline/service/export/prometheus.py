"""`/metrics`: the registry of metrics in Prometheus' text format, read at every scrape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from ridgeline.measure.metric import Kind, Metric
from ridgeline.measure.registry.scrape import Distribution
from ridgeline.service.export.readings import Readings, Sample

if TYPE_CHECKING:
    from ridgeline.observe.answers import Answers

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of the text format, which every scraper understands."""
_KINDS = {Kind.COUNTER: "counter", Kind.HISTOGRAM: "histogram"}
_LABELS = "\0"
"""Stands for the labels in a histogram's lines."""
_LABELS_KEPT = 16_384
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Exposition:
    """The answer to a scrape of one application.

    The text is written here: hundreds of operators have tens of thousands of lines, for which
    `prometheus_client` takes many times as long. It writes the same text (a test compares them).
    """

    def __init__(self, watch: Answers) -> None:
        self._readings = Readings(watch)

    def render(self) -> bytes:
        """The metrics as of now, in the text format."""
        _, read = self._readings.read()
        return "".join(text for metric, samples in read for text in _text(metric, samples)).encode()


def _text(metric: Metric, samples: Iterable[Sample]) -> Iterator[str]:
    """The lines of a metric."""
    name, names = metric.full_name, metric.all_labels
    text = metric.help.translate(_HELP_ESCAPES)
    yield f"# HELP {name} {text}\n# TYPE {name} {_KINDS.get(metric.kind, 'gauge')}\n"
    histogram = "".join(f'{name}_bucket{{{_LABELS},le="{bound}"}} %d\n' for bound in _bounds(metric))
    histogram += f"{name}_sum{{{_LABELS}}} %r\n{name}_count{{{_LABELS}}} %d\n"
    for values, value in samples:
        labels = _labels(names, values)
        if isinstance(value, Distribution):
            # One formatting for all buckets is what makes it fast, so a `%` in a label has to be escaped.
            yield histogram.replace(_LABELS, labels.replace("%", "%%")) % (
                *value.counts,
                value.total,
                value.counts[-1],
            )
        else:
            yield f"{name}{{{labels}}} {value!r}\n"


@lru_cache(_LABELS_KEPT)
def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Labels as they stand in a line; most are the same in many lines, and in the next scrape."""
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)
    )


@cache
def _bounds(metric: Metric) -> tuple[str, ...]:
    """The values of the label `le`; none of a metric that is no histogram."""
    return (*map(repr, metric.bounds), "+Inf") if metric.bounds else ()
