"""A running application as HTML: the sentence, and the DAG with the critical path."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.answers.sentence import SentenceAnswer
from ridgeline.measure.drawing.dag import dag_svg
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.times import step_owner
from ridgeline.measure.wording.units import milliseconds
from ridgeline.observe.answers import Answers
from ridgeline.plan.execution import Plan

_COLOURS = {
    "starting": "#868e96",
    "ok": "#2f9e44",
    "behind": "#f08c00",
    "stuck": "#e03131",
    "failed": "#e03131",
    "ended": "#868e96",
}


@dataclass(frozen=True, slots=True)
class HtmlView:
    """HTML that a notebook shows."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def handle_html(name: str, url: str | None, plan: Plan, watch: Answers) -> str:
    """The view of an application in a notebook: its name, the sentence, the DAG. Secrets are not in it."""
    overview = watch.overview()
    sentence = sentence_of(overview)
    colour = _COLOURS[sentence["state"]]
    link = f' · <a href="{escape(url)}" target="_blank" rel="noopener">{escape(url)}</a>' if url else ""
    dot = f'<span style="color:{colour}">●</span>'
    head = f"<div>{dot} <b>{escape(name)}</b>{link}</div><div>{_sentence_html(sentence)}</div>"
    return f'<div class="ridgeline">{head}{plan_svg(plan, overview)}</div>'


def plan_svg(plan: Plan, overview: OverviewAnswer) -> str:
    """The logical operators with their latencies in the last window, and the critical path."""
    logical = plan.logical
    latencies: dict[str, float | None] = {
        row["operator"]: row["latencyMs"] for row in overview["latency"]["logical"]
    }
    nodes = {one.name: _second(len(one.divided), latencies.get(one.name)) for one in logical.operators}
    edges = {
        (stream.source.operator, sink.operator): None for stream in logical.streams for sink in stream.sinks
    }
    known = [pair for pair in edges if pair[0] in nodes and pair[1] in nodes]
    path = {step_owner(overview, step) for step in overview["criticalPath"]["path"]}
    return dag_svg(nodes, known, path)


def _second(partitions: int, latency: float | None) -> str:
    parts = [] if latency is None else [milliseconds(latency)]
    if partitions > 1:
        parts.append(f"{partitions} partitions")
    return " · ".join(parts)


def _sentence_html(sentence: SentenceAnswer) -> str:
    return "".join(
        escape(part["text"]) if part["about"] is None else f"<b>{escape(part['text'])}</b>"
        for part in sentence["parts"]
    )
