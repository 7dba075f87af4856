"""`ridgeline top` as a screen: keys pressed, against the real service of a run that was watched."""

import os
import re

import pytest

from ridgeline.cli.top.board import Board
from ridgeline.cli.top.table import OperatorTable
from ridgeline.measure.events import ContainerHeartbeat, LineTime
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.measure.wording.times import to_blame
from ridgeline.service.http.server import WebServer
from ridgeline.service.http.web import create_app
from support.cli.screens import on_screen
from support.cli.windows import make_plan, watch_of, window
from support.paths import ROOT
from support.service.watched import feed, watched

pytestmark = pytest.mark.usefixtures("utc")


@pytest.fixture(scope="module")
def run():
    """A run of three windows of which two more are to come, with its service."""
    watch, plan, rest, now = watched(until=3)
    server = WebServer(create_app(watch, plan))
    yield watch, server, rest, now
    server.close()


def test_all_of_it_is_on_the_screen_and_keys_sort_filter_and_unfold(run):
    watch, server, _, _ = run

    async def check(screen):
        await screen.until(lambda: screen.text("sentence"), "the sentence")
        assert sentence_of(watch.overview())["text"].split(";")[0] in " ".join(
            screen.text("sentence").split()
        )
        assert "▸" in screen.text("operators")
        assert screen.text("windows").startswith("windows 2 ")
        assert screen.text("path").strip().startswith("critical path source")
        assert "source" in screen.text("sources")
        keys = ("Quit", "Filter", "Sort", "Pause", "Set", "Stop", "Help")
        await screen.until(lambda: all(key in screen.app.export_screenshot() for key in keys), "the keys")

        assert screen.titles() == ["source", "balances", "balances.balances#unifier", "sink"]
        latencies = [row.latency_ms or 0.0 for row in screen.app.query_one(OperatorTable).rows]
        assert latencies == sorted(latencies, reverse=True)
        await screen.pilot.press("u")
        assert "balances[1]" in screen.titles()
        await screen.pilot.press("u", "S", "S")
        assert screen.titles() == ["balances", "balances.balances#unifier", "sink", "source"]
        await screen.pilot.press("r")
        assert screen.titles()[:2] == ["source", "sink"]

        await screen.pilot.press("slash", *"SIN")
        assert screen.titles() == ["sink"]
        await screen.pilot.press("q")
        assert screen.titles() == []
        assert "no operator has `SINq` in its name" in screen.text("operators")
        await screen.until(lambda: not screen.text("details").strip(), "no details of an operator left out")
        await screen.pilot.press("backspace", "enter", "escape")
        assert len(screen.titles()) == 4

        await screen.pilot.press("home", "down")
        assert screen.app.query_one(OperatorTable).current.title == "sink"
        await screen.until(lambda: screen.text("details").startswith("sink"), "details of the other operator")
        await screen.pilot.press("d")
        await screen.until(lambda: screen.app.query_one("#below").has_class("gone"), "no panels")
        await screen.pilot.press("question_mark")
        assert screen.app.screen.query("HelpPanel")

    on_screen(server.url, check)


def feed_lines(watch, operator, **shares):
    """A heartbeat of which lines have these parts of 10 s; one of them is hostile."""
    (number,) = [row["id"] for row in watch.operators() if row["operator"] == operator]
    lines = [
        LineTime(number, "/srv/clicks.py", line, "Parse.take", text, 10 * share)
        for line, (text, share) in enumerate(shares.items(), 41)
    ]
    now = watch.now()
    watch.observe(ContainerHeartbeat(now, -1, "worker-1", 7, now, lines=tuple(lines)))


def test_where_the_time_goes_by_line_of_the_chosen_operator_and_of_the_slowest():
    watch, plan, _, _ = watched(until=3)
    server = WebServer(create_app(watch, plan))
    slowest = to_blame(watch.overview())
    other = next(one for one in ("sink", "balances[0]") if not one.startswith(slowest))

    async def check(screen):
        await screen.pilot.press("slash", *other.partition("[")[0], "enter", "escape")
        await screen.pilot.press("l")
        await screen.until(lambda: "no samples yet" in screen.text("details"), "that there are none")
        feed_lines(watch, other, **{"json.loads(text)": 0.6, "[red]\x1b[2J": 0.3, "rest": 0.1})
        await screen.until(lambda: "10%" in screen.text("details"), "all lines")
        rows = [line.split() for line in screen.text("details").splitlines()]
        assert [row[0] for row in rows if row[0].endswith("%")] == ["60%", "30%", "10%"]
        assert "[red]" in screen.text("details")
        assert "\x1b" not in screen.text("details")
        assert screen.text("sources").startswith(f"{slowest}  slowest of the critical path")
        await screen.pilot.press("l")
        await screen.until(lambda: "latency" in screen.text("details"), "details again")
        hot = "hot line clicks.py:41 json.loads(text): 60% of its time"
        await screen.until(lambda: hot in " ".join(screen.text("details").split()), "the hottest line")
        await screen.pilot.press("d", "l")
        await screen.until(lambda: "clicks.py:42" in screen.text("details"), "lines without details before")

    try:
        on_screen(server.url, check)
    finally:
        server.close()


def test_ctrl_c_leaves_the_screen_also_from_a_field(run):
    _, server, _, _ = run

    async def check(screen):
        await screen.pilot.press("slash", "ctrl+c")
        await screen.until(lambda: not screen.app.is_running, "the end")

    on_screen(server.url, check)


def test_windows_of_before_are_taken_once_also_where_regions_number_their_own():
    watch, _, _, _ = watched(until=3)
    board = Board()
    board.known([])
    rows = [{"windowId": 100, "latencyMs": 5.0}, {"windowId": 1, "latencyMs": 3.0}]
    for _ in range(3):
        board.known(rows)
    board.take(watch.overview())
    board.known(rows)
    assert list(board.windows)[:2] == [(100, 5.0), (1, 3.0)]
    assert [number for number, _ in board.windows] == [100, 1, 2]


def test_it_fits_a_small_terminal(run):
    async def check(screen):
        assert screen.app.query_one("#below").has_class("gone")
        assert screen.app.query_one(OperatorTable).size.height >= 4
        assert "latency" in screen.text("operators")

    on_screen(run[1].url, check, size=(60, 18))


def test_actions_ask_first_and_a_refusal_is_said(run):
    async def check(screen):
        await screen.pilot.press("p")
        assert "ridgeline pause payments" in screen.app.export_screenshot().replace("&#160;", " ")
        await screen.pilot.press("n")
        assert len(screen.app.screen_stack) == 1
        await screen.pilot.press("x", "y")
        await screen.until(lambda: screen.app._notifications, "the refusal")
        assert len(screen.app.screen_stack) == 1

    on_screen(run[1].url, check)


def test_new_windows_appear_a_broken_line_is_said_and_the_end_too():
    watch, plan, rest, now = watched(until=3)
    server = WebServer(create_app(watch, plan))
    port = int(server.url.rpartition(":")[2])

    async def check(screen):
        commit = next(
            number for number, event in enumerate(rest) if type(event).__name__ == "WindowCommitted"
        )
        feed(watch, now, *rest[: commit + 1])
        await screen.until(lambda: screen.text("windows").startswith("windows 3 "), "the next window")

        server.close()
        await screen.until(lambda: "stale since" in screen.text("notice"), "stale")
        again.append(WebServer(create_app(watch, plan), port=port))
        feed(watch, now, *rest[commit + 1 :])
        await screen.until(lambda: screen.text("windows").startswith("windows 4 "), "windows after the cut")
        assert not screen.app.query_one("#notice").has_class("shown")

    again = []
    try:
        on_screen(server.url, check)
    finally:
        for one in again:
            one.close()


def test_the_picture_of_the_docs():
    """With RIDGELINE_WRITE_PICTURES=1 it is written."""
    plan, at, events = make_plan(), 0.0, []
    for number in range(90):
        seconds = 0.2 + 0.15 * (number % 7) / 7 + (0.5 if number % 31 == 30 else 0.0)
        events += window(plan, number, 4000 + 100 * (number % 5), at=at, seconds=seconds)
        at += 0.5
    server = WebServer(create_app(watch_of(plan, events), plan))
    pictures = []

    async def check(screen):
        await screen.until(lambda: "Quit" in screen.app.export_screenshot(), "the keys")
        await screen.until(lambda: screen.text("sources"), "all of it")
        pictures.append(screen.app.export_screenshot(title="ridgeline top numbers"))

    try:
        on_screen(server.url, check, size=(120, 30), name="numbers")
    finally:
        server.close()
    # fonts are those of the reader: nothing is loaded
    picture = re.sub(r"@font-face *\{.*?\}", "", pictures[0], flags=re.DOTALL)
    path = ROOT / "docs" / "images" / "top.svg"
    if os.environ.get("RIDGELINE_WRITE_PICTURES"):
        path.write_text(picture)
    for text in (picture, path.read_text()):
        assert "http" not in text.replace("http://www.w3.org/", "").replace("https://www.textualize.io", "")
        for word in ("keeping up", "critical path", "double", "latency▼", "Filter"):
            assert word in text.replace("&#160;", " ")
