"""What a person asks of a running application: the page alone answers each in at most three clicks.

The browser counts: what is clicked, and keys that do what a click does. Answers are compared with what the
application was made to do, and with what reads it without the page.
"""

import collections
import re
import time

import pytest

from support.depth import DEPTH
from support.page import asked as made
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

MOST_CLICKS = 3
COUNT = """(() => {
    globalThis.clicks = 0;
    let pressed = false;
    addEventListener("click", (event) => {
        if (event.isTrusted) globalThis.clicks += 1;
        pressed = false;
    }, true);
    addEventListener("keydown", (event) => {
        if (!event.isTrusted || event.repeat) return;
        const written = event.target.matches("input, textarea, select");
        if (event.key === "Enter" || (event.key === " " && !written)) {
            pressed = true; // a link or a button makes a click of it, which is counted there
            setTimeout(() => {
                globalThis.clicks += pressed;
                pressed = false;
            }, 50);
        } else if (event.key.length === 1 && !written) globalThis.clicks += 1;
    }, true);
})()"""


@pytest.fixture(scope="module")
def application(spark_context, tmp_path_factory):
    with made.asked(spark_context, tmp_path_factory.mktemp("asked")) as found:
        yield found


class Person:
    """Looks at the page, and clicks; with the mouse, or with the keyboard alone."""

    def __init__(self, page, keyboard):
        self.page = page
        self._keyboard = keyboard

    def click(self, found):
        """Do it for real: the browser counts it."""
        if self._keyboard:
            found.first.focus()
            self.page.keyboard.press("Enter")
        else:
            found.first.click()

    def goes_to(self, view):
        self.click(self.page.get_by_role("link", name=view, exact=True))

    def opens(self, operator):
        """The panel of an operator, from the first view: one click."""
        self.click(self.page.get_by_role("row", name=re.compile(rf"^{operator}\b")))
        return self.page.get_by_role("complementary", name=f"Operator {operator}")

    def opens_tab(self, operator, tab):
        panel = self.opens(operator)
        self.click(panel.get_by_role("tab", name=tab))
        return panel

    def answered(self, place, pattern, holds=lambda _: True):
        """The match of an answer that is seen, and holds; more clicks than three are too many.

        Figures settle: an answer that does not hold yet is waited for.
        """
        place.first.wait_for()

        def found():
            match = re.search(pattern, " ".join(place.first.inner_text().split()))
            return match if match and holds(match) else None

        match = wait_until(found, f"`{pattern}`, not {place.first.inner_text()}", every=0.1)
        assert self.clicks() <= MOST_CLICKS
        return match

    def clicks(self):
        self.page.wait_for_timeout(60)
        return self.page.evaluate("clicks")


@pytest.fixture(params=["mouse", "keyboard"] if DEPTH > 1 else ["mouse"])
def person(request, application, open_page):
    """A person before the page as its address opens it."""
    page = open_page("about:blank")
    page.add_init_script(COUNT)
    page.goto(application.page())
    page.get_by_role("row", name=re.compile("^parse")).first.wait_for()
    yield Person(page, request.param == "keyboard")
    page.goto("about:blank")


def seconds_of(text):
    hours, minutes, seconds = map(int, re.search(r"(\d\d):(\d\d):(\d\d)", text).groups())
    return 3600 * hours + 60 * minutes + seconds


def of_day(at):
    moment = time.localtime(at)
    return 3600 * moment.tm_hour + 60 * moment.tm_min + moment.tm_sec


def consumed(application):
    return application.client.get("/sources/orders")["partitions"][0]["consumed"]


def test_four_clicks_are_too_many(person):
    """The count itself: the mouse, the keyboard on a link, on a card, and a key of the page."""
    person.page.get_by_role("link", name="Time", exact=True).click()
    person.page.get_by_role("link", name="Graph", exact=True).press("Enter")
    card = person.page.locator('[data-node="parse"]')
    card.press("Enter")
    panel = person.page.get_by_role("complementary", name="Operator parse")
    person.answered(panel, "parse")
    assert person.clicks() == 3
    card.press("ArrowRight")
    person.page.keyboard.press("?")
    assert person.clicks() == 4
    with pytest.raises(AssertionError, match="4 <= 3"):
        person.answered(person.page.locator(".sentence"), "parse")


def test_which_operator_makes_records_late(person):
    sentence = person.page.locator(".sentence")
    assert int(person.answered(sentence, r"(\d+)% of it parse\[\d\]")[1]) > 50
    assert person.answered(sentence, r"of records are younger than .+ at (\w+)")[1] == "ledger"
    person.click(sentence.locator("a[href*='operator=parse']"))
    panel = person.page.get_by_role("complementary", name="Operator parse")
    share = person.answered(panel, r"on the critical path in (\d+) % of the last windows")
    assert int(share[1]) > 90


def test_since_when(person, application):
    window, at = application.changed
    person.goes_to("Time")

    def holds(turn):
        return abs(int(turn[2]) - window) <= 2 and (seconds_of(turn[1]) - of_day(at)) % 86_400 <= 10

    person.answered(person.page.locator(".time-turn"), r"Slower since (\S+), ?window (\d+)", holds)


def test_what_happened_then(person):
    person.goes_to("Time")
    then = person.answered(person.page.locator(".time-turn"), "Then: (.*)")[1]
    assert f"set parse.pause to {made.CHANGED_TO:g}, asked for by {made.WHO} ({made.NOTE})" in then


def test_is_one_partition_worse(person, application, accessible, screenshot):
    panel = person.opens_tab("parse", "Partitions")
    said = person.answered(panel, r"parse\[(\d)\] is worse: .*; it gets (\d+) % of the tuples")
    hot = [order.partition for order in application.collected("ledger") if order.city == made.HOT]
    assert {int(said[1])} == set(hot)  # an operator sees its own partition
    assert int(said[2]) >= 100 * made.HOT_SHARE - 2
    accessible(person.page)
    screenshot(person.page, "partitions")


def test_what_does_it_wait_for(person, application):
    panel = person.opens("parse")
    person.answered(panel, r"only \d+ % of that is processor time: it waits for something outside, or sleeps")
    person.click(panel.get_by_role("tab", name="Code"))
    lines = panel.get_by_role("table", name=re.compile("^Lines"))
    person.answered(lines, r"time\.sleep\(self\.pause\)")

    def agree():
        """The figures of the page are those of REST, which both have anew every 5 seconds."""
        (rest,) = application.client.get("/lines", operator="parse")["operators"]
        wanted = [f"{100 * rest['lines'][0][name]:.0f} %" for name in ("share", "ofPath")]
        shown = lines.locator("tbody tr").first.locator("td.operator-number").all_inner_texts()
        return wanted == shown and shown

    share, of_path = wait_until(agree, "the same figures on the page and in REST", every=0.2)
    assert int(share.split()[0]) >= 80
    assert int(of_path.split()[0]) >= 50
    assert person.clicks() <= MOST_CLICKS


def test_will_it_catch_up_and_when(person, application):
    person.goes_to("Sources")
    verdict = person.page.locator(".sources-verdict")
    seen = collections.deque(maxlen=60)

    def holds(said):
        """Beside what is read meanwhile, by the clock of the test."""
        seen.append((time.time(), consumed(application)))
        (since, first), (now, last) = seen[0], seen[-1]
        if last - first < 5 * made.PER_WINDOW:
            return False
        left = (made.WAITING - last) * (now - since) / (last - first)
        return (seconds_of(said[1]) - of_day(now)) % 86_400 == pytest.approx(left, rel=0.2)

    person.answered(verdict, r"orders will have caught up in .*, at (\d\d:\d\d:\d\d)", holds)


def test_what_was_changed_by_whom_and_did_it_help(person, application):
    person.goes_to("Changes")
    person.click(person.page.get_by_role("row").filter(has_text="parse.pause"))
    detail = person.page.get_by_role("complementary", name="Change")
    person.answered(detail, rf"set parse\.pause to {made.CHANGED_TO:g}")
    detail.get_by_text(made.WHO, exact=True).wait_for()
    detail.get_by_text(made.NOTE).wait_for()
    detail.get_by_role("link", name=f"window {application.changed[0]}").wait_for()
    person.answered(detail, "Windows are slower")


def test_what_does_this_operator_emit_right_now(person, application):
    panel = person.opens_tab("parse", "Ports")
    before = consumed(application)
    port = panel.locator(".operator-port").filter(has_text="parsed output")
    person.click(port.get_by_role("button", name="Show tuples"))
    person.answered(port, r"The last \d+ tuples")
    table = port.locator(".operator-tuples")
    names = table.locator("thead th").all_inner_texts()
    rows = [row.split("\t") for row in table.locator("tbody tr").all_inner_texts()]
    tuples = [dict(zip(names, row, strict=True)) for row in rows]
    numbers = {int(one["number"]) for one in tuples}
    assert len(numbers) == len(tuples)
    assert min(numbers) >= before - 2 * made.PER_WINDOW  # not those of before it was asked
    assert all(one["city"] == made.CITIES[int(one["number"]) % len(made.CITIES)] for one in tuples)


def test_which_key_is_hot(person):
    panel = person.opens_tab("parse", "Partitions")
    heaviest = panel.locator(".operator-keys tbody tr")
    share = person.answered(heaviest, rf"{made.HOT} ?(\d+) %")
    assert int(share[1]) == pytest.approx(100 * made.HOT_SHARE, abs=3)


def test_which_window_failed_and_why(person):
    person.goes_to("Time")
    happened = person.page.get_by_role("list", name="What happened", exact=True)
    failure = happened.get_by_role("listitem").filter(has_text=made.REASON)
    person.click(failure.get_by_role("link", name=f"window {made.FAILED}"))
    page = person.page
    person.answered(page.locator(".time-chain"), f"Window {made.FAILED}: who waited for whom")
    person.answered(page.locator(".time-chain"), "2 attempts")
    page.get_by_role("list", name="What happened then").get_by_text("ConnectionResetError").wait_for()
    page.get_by_role("group", name="Who waited for whom").get_by_text("earlier attempts").first.wait_for()
