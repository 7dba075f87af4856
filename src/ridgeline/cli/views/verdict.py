"""Whether the application keeps up, in one line."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from ridgeline.api.support.masking import printable
from ridgeline.measure.answers.progress import BacklogAnswer, ProgressAnswer
from ridgeline.measure.answers.sentence import SentenceAnswer
from ridgeline.measure.wording.units import count, duration, plural, soon, time_of_day
from ridgeline.measure.wording.waiting import LATE_WINDOWS, known_as

STYLES: Mapping[str, str] = {
    "keeping up": "bold green",
    "paced": "bold green",
    "catching up": "bold cyan",
    "holding": "bold yellow",
    "settling": "bold",
    "late": "bold yellow",
    "falling behind": "bold red",
    "stuck": "bold white on red",
    "unreachable": "bold white on red",
}
_STATES: Mapping[str, str] = {
    "starting": "bold",
    "ok": "bold green",
    "behind": "bold yellow",
    "stuck": "bold white on red",
    "failed": "bold white on red",
    "ended": "bold",
}
_OLD_SECONDS = 5.0
_UNKNOWN = "no verdict yet: how much waits at the sources is not known"


def verdict_line(progress: ProgressAnswer, at: float | None) -> Text:
    """The verdict, what waits, and when that will be done.

    `at`: STRAM's clock when the answer was given; None if it is not known.
    """
    if sentence := progress.get("sentence"):
        return sentence_line(sentence)
    application = progress["application"]
    verdict = application["verdict"]
    if verdict in {"keeping up", "paced"} and (application.get("windowsBehind") or 0) > LATE_WINDOWS:
        verdict = "late"
    if verdict not in STYLES:
        line = Text(_UNKNOWN, "dim")
    else:
        line = Text(verdict, STYLES[verdict])
        parts = (
            _unreachable(progress)
            if verdict == "unreachable"
            else _parts({**application, "verdict": verdict}, at)
        )
        for number, part in enumerate(parts):
            line.append(f"{', ' if number else ': '}{part}")
    for why in (*application.get("stuckStores", ()), *application.get("stuckOutputs", ())):
        line.append("; ").append(printable(why), STYLES["stuck"])
    return line


def sentence_text(sentence: SentenceAnswer) -> Text:
    """The sentence as `/sentence` answers, with its first words in the colour of the state."""
    line = Text()
    head = True
    for part in sentence["parts"]:
        before, colon, after = part["text"].partition(":") if head else ("", "", part["text"])
        line.append(before, _STATES[sentence["state"]]).append(colon)
        line.append(after, "bold" if part["about"] is not None and not head else "")
        head = head and not colon
    return line


def sentence_line(sentence: str) -> Text:
    """A verdict that the application has put into a sentence, such as `keeping up: results are 0.3 s old`."""
    verdict, colon, rest = sentence.partition(":")
    return Text.assemble((verdict, STYLES.get(verdict, "dim")), f"{colon}{rest}")


def _unreachable(progress: ProgressAnswer) -> list[str]:
    """`source clicks does not answer: Timed out`, for each one."""
    sources = [source for source in progress["sources"] if source.get("problem")]
    return [f"source {source['operator']} does not answer: {source['problem']}" for source in sources]


def end(caught_up_at: float | None, at: float | None) -> str:
    """When a backlog will be worked off: `in 40 s (14:03:12)`; empty if unknown."""
    if caught_up_at is None:
        return ""
    return (
        f"at {time_of_day(caught_up_at)}"
        if at is None
        else f"in {soon(caught_up_at - at)} ({time_of_day(caught_up_at, at)})"
    )


def _parts(application: BacklogAnswer, at: float | None) -> list[str]:
    """The verdict, what waits, and when it will be done, as texts."""
    verdict, parts = application["verdict"], []
    nothing_waits = not application["backlogRecords"] and application["backlogSeconds"] == 0
    if verdict == "paced":
        parts.append("what is left is not due yet")
    elif verdict not in {"keeping up", "late"} and not nothing_waits:
        if application["backlogRecords"] is not None:
            parts.append(f"{known_as(application['basis'])}{count(application['backlogRecords'])} records")
        elif application["backlogSeconds"] is not None:
            parts.append(f"{known_as(application['basis'])}{duration(application['backlogSeconds'])} of work")
    if verdict == "catching up" and application["caughtUpAt"] is not None:
        parts.append(f"done {end(application['caughtUpAt'], at)}")
    if verdict == "falling behind":
        idle = "nothing waits at the sources, but windows begin late"
        parts.append(idle if nothing_waits else "more arrives than is worked off")
    if verdict == "stuck":
        parts.append("nothing is committed, and nothing moves")
    as_of, behind = application.get("asOf"), application.get("windowsBehind")
    if at is not None and as_of is not None and at - as_of > _OLD_SECONDS:
        parts.append(f"as of {soon(at - as_of)} ago")
    if behind and verdict != "keeping up":
        parts.append(f"{plural(behind, 'window')} behind")
    return parts
