"""An application of three regions on Spark, changed by clicks in its last region, until that region fails."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ridgeline import Application, InputPort, Operator, OutputPort
from ridgeline.testing import CollectorSink
from support.page.browser import confirm
from support.service.regions import Number, Numbers, PassOn

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Post(Operator):
    """Passes on; fails once there is a file `strike`."""

    numbers = InputPort(Number)
    passed = OutputPort(Number)
    note: str = ""
    strike: str = ""

    @numbers.process
    def take(self, number: Number) -> None:
        if self.strike and Path(self.strike).exists():
            raise ConnectionError("the post is on strike")
        self.passed.emit(number)


def application(strike, regions=3) -> Application:
    app = Application("fan", window="100ms")
    numbers = app.add_operator("numbers", Numbers())
    gate = app.add_operator("gate", PassOn())
    post = app.add_operator("post", Post(strike=str(strike)), recovery_attempts=1)
    slow = app.add_operator("slow", CollectorSink(Number))
    app.add_stream("numbers", numbers.output, gate.numbers, decoupled={gate.numbers} if regions > 1 else ())
    app.add_stream("passed", gate.passed, post.numbers, decoupled={post.numbers} if regions > 1 else ())
    app.add_stream("posted", post.passed, slow.input)
    return app


def set_note(page, text, note):
    """Give the chosen operator another note, by clicks."""
    page.get_by_role("button", name="Change note").click()
    page.get_by_label("New value of note").fill(text)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("post.note")
    expect(dialog).to_contain_text(f"ridgeline set-operator-property fan post note {text}")
    dialog.get_by_label("Note", exact=True).fill(note)
    confirm(dialog)


def test_an_operator_of_another_region_is_changed_by_clicks(spark_context, tmp_path, open_page, accessible):
    with application(tmp_path / "strike").start(
        context=spark_context, checkpoint=str(tmp_path / "checkpoint"), quiet=True
    ) as handle:
        page = open_page(handle.page())
        page.get_by_text("live, ").wait_for()
        page.get_by_role("link", name="Configuration", exact=True).click()
        page.get_by_text(re.compile(r"^\d+ of \d+$")).wait_for()
        expect(page.locator("main")).not_to_contain_text("_queue")  # streams make these, no change
        page.get_by_role("link", name="Checkpoints", exact=True).click()
        page.get_by_role("table", name="Windows to go back to").get_by_role("row", name="post").first.click()
        page.get_by_text(re.compile(r"--from-window \d+ --region post$")).wait_for()
        accessible(page)
        page.get_by_role("link", name="Graph", exact=True).click()
        expect(page.locator(".graph-edge.graph-queue")).to_have_count(2)
        page.locator('[data-node="post"]').click()
        page.get_by_role("tab", name="Settings").click()
        set_note(page, "slowly", "the third region")
        page.get_by_role("complementary").get_by_text("by page, ").wait_for()

        page.get_by_role("tab", name="Partitions").click()
        page.get_by_role("spinbutton", name="Partitions").fill("2")
        page.get_by_role("button", name="See what would change").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("post: 1 -> 2 partitions")
        confirm(dialog)
        page.get_by_role("complementary").get_by_text("2 partitions", exact=True).wait_for()

        page.get_by_role("link", name="Changes", exact=True).click()
        row = page.get_by_role("row").filter(has_text="the third region")
        row.get_by_role("link").click()
        page.wait_for_url("**region=post*")
        page.get_by_text("of post, committed at").wait_for()
        for region in ("numbers", "gate", "post"):
            page.get_by_role("slider", name=f"Window of {region}").wait_for()
        accessible(page)

        page.goto("about:blank")
