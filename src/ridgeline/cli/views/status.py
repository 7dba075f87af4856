"""Who is slow: the sentence, ages at sinks, the slowest operator, what waits, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.cli.views.running import queue_parts, sentence_text, sources_table
from ridgeline.cli.views.screen import sink_lines
from ridgeline.measure.answers.application import SentenceAnswer
from ridgeline.measure.wording.units import milliseconds, plural

_SHOWN = 3


def status_parts(sentence: SentenceAnswer, answer: Mapping[str, Any], width: int) -> Iterator[RenderableType]:
    """The sentence, and below it the answers of other questions, if they were asked."""
    yield sentence_text(sentence)
    if not answer:
        return
    progress = answer["progress"]
    yield from sink_lines(answer["recordAge"])
    if slow := _slowest(progress["application"].get("bottleneck"), answer["criticalPath"]):
        yield Text.assemble(("slowest operator ", "dim"), printable(slow))
    sources = sources_table(progress, width, None)
    if sources is not None:
        yield sources
    yield from queue_parts(progress, width)
    for one in answer["advice"][:_SHOWN]:
        yield Text.assemble(("what helps ", "dim"), printable(f"{one['what']}: {one['why']}"))
        if one["command"]:
            yield Text(printable(f"  {one['command']}"), "bold")


def _slowest(full: Mapping[str, Any] | None, path: Mapping[str, Any]) -> str:
    """The saturated operator and how busy it is, else that with most of a window; "" before the first."""
    if full is not None:
        slot = "" if full["slotBusy"] <= full["busy"] else f", its slot {full['slotBusy']:.0%}"
        return f"{full['operator']}: {full['busy']:.0%} busy{slot}, {plural(full['partitions'], 'partition')}"
    longest = max(path["path"], key=lambda one: one["latencyMs"] or 0.0, default=None)
    if longest is None:
        return ""
    of = (
        f"{milliseconds(longest['latencyMs'])} of {milliseconds(path['windowLatencyMs'])} that a window takes"
    )
    return f"{longest['operator']}: {of}; none is saturated"
