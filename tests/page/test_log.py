"""The log of an operator on the page: its last lines, as they come, as text and nothing else."""

import pytest

from ridgeline.engine.driver.operator_log import OperatorLog
from support.page.shop import shop
from support.service.living import living

pytestmark = pytest.mark.slow

HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def log():
    return OperatorLog()


@pytest.fixture(scope="module")
def application(log):
    with living(shop(), log=log) as found:
        yield found


def say(log, partition, *texts, level="", left_out=0):
    lines = [
        (1.8e9 + number, 7, "log" if level else "stdout", level, "", text)
        for number, text in enumerate(texts)
    ]
    log.add("parse", partition, lines, "worker", 7, left_out)


def test_the_last_lines_of_an_operator_come_by_themselves(application, log, open_page, accessible):
    say(log, 0, *[f"line {number}" for number in range(200)])
    say(log, 1, HOSTILE, level="WARNING", left_out=12_345)
    code = application.web.state.access.sessions.code()
    page = open_page(f"{application.server.url}/#code={code}")
    page.get_by_role("heading", name="shop", exact=True).wait_for()
    page.evaluate("location.hash = '#/graph?operator=parse&tab=logs'")
    lines = page.get_by_role("log", name="Lines")
    lines.get_by_text("line 199", exact=True).wait_for()
    lines.get_by_text(HOSTILE).wait_for()
    lines.get_by_text("12,345 lines are left out").wait_for()
    assert page.title() == "shop · Ridgeline"
    assert lines.evaluate("(box) => box.scrollHeight - box.scrollTop - box.clientHeight") < 24
    accessible(page)
    say(log, 0, "a password=hunter2 that is new")
    lines.get_by_text("a password=*** that is new").wait_for()
    page.get_by_label("Find lines").fill("line 77")
    lines.get_by_text("line 199", exact=True).wait_for(state="detached")
    lines.get_by_text("line 77", exact=True).wait_for()


def test_without_the_right_to_see_tuples_there_are_no_lines(application, log, open_page):
    say(log, 0, "not for all")
    page = open_page(f"{application.server.url}/#/graph?operator=parse&tab=logs")
    page.get_by_text("it needs the token").wait_for()
    assert page.get_by_text("not for all").count() == 0
    page.get_by_label("Token").fill(application.server.write_token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("not for all").wait_for()
