"""The plan is edited from the page: edits are chosen, seen as a difference, and confirmed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ridgeline.service.registry import own_entry, register
from support.page.browser import confirm
from support.page.shop import shop
from support.service.living import living

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def application():
    with living(shop()) as found:
        yield found


@pytest.fixture
def page(application, open_page):
    page = open_page(application.server.page())
    page.get_by_text("live, ").wait_for()
    page.get_by_role("link", name="Changes", exact=True).click()
    return page


def choose(page, kind, **fields):
    page.get_by_label("What").select_option(kind)
    for name, text in fields.items():
        page.get_by_label(name.replace("_", " "), exact=name != "Properties").fill(text)


def names(application):
    return {one.name for one in application.run.plan.logical.operators}


def test_an_operator_and_its_stream_are_added_together_and_removed_again(
    page, application, accessible, screenshot
):
    page.get_by_role("button", name="Edit the plan").click()
    page.wait_for_url("**edit=add-operator*")
    choose(page, "add-operator", Name="copy", Class="ridgeline.testing.NullSink")
    page.get_by_role("button", name="And another edit").click()
    choose(page, "add-sink", Stream="parsed", Port="copy.input")
    accessible(page)
    screenshot(page, "page-plan-edits")
    page.get_by_role("button", name="See what would change").click()
    dialog = page.get_by_role("dialog")
    for text in ("copy", "parsed", "printf %s ", " | ridgeline change shop --edits -"):
        expect(dialog).to_contain_text(text)
    expect(dialog.get_by_role("button", name="Confirm")).to_be_enabled()
    assert "copy" not in names(application)
    accessible(page)
    dialog.get_by_label("Note").fill("for the audit")
    confirm(dialog)
    page.wait_for_url(lambda url: "edit=" not in url)
    assert "copy" in names(application)
    page.get_by_role("cell", name="for the audit").wait_for()

    page.get_by_role("link", name="Graph", exact=True).click()
    page.locator('[data-node="copy"]').click()
    page.get_by_role("tab", name="Settings").click()
    page.get_by_role("link", name="Rename, replace or remove it").click()
    choose(page, "remove-operator")
    expect(page.get_by_label("Operator", exact=True)).to_have_value("copy")
    page.get_by_role("button", name="See what would change").click()
    expect(dialog).to_contain_text("copy")
    dialog.get_by_role("button", name="Confirm").click()
    expect(dialog).to_contain_text("applied")
    assert "copy" not in names(application)


def test_what_is_wrong_is_said_and_nothing_changes(page, application, open_page):
    open_page.expected.append("400|409")
    version = application.run.plan.version
    page.evaluate("location.hash = '#/changes?edit=json'")
    see = page.get_by_role("button", name="See what would change")
    expect(see).to_be_disabled()
    for text in ("[", "3", '"x"', "null"):
        page.get_by_label("Edits", exact=True).fill(text)
        see.click()
        page.get_by_role("alert").get_by_text("Edits: this is no JSON of objects").wait_for()
    page.get_by_label("Edits", exact=True).fill("[]")
    see.click()
    page.get_by_role("alert").get_by_text("Edits: the list is empty.").wait_for()
    for text in ("[null]", "[3]"):
        page.get_by_label("Edits", exact=True).fill(text)
        page.get_by_role("button", name="And another edit").click()
        page.get_by_role("alert").get_by_text("Edits: each one is an object.").wait_for()
    for number in ("9007199254740993", "1e999"):
        page.get_by_label("Edits", exact=True).fill(
            f'{{"do": "set-property", "text": "\\"{"9" * 20}", "value": {number}}}'
        )
        see.click()
        page.get_by_role("alert").get_by_text(f"would round the number {number}.").wait_for()
    dialog = page.get_by_role("dialog")
    for edit, said in (
        ({"do": "remove-operator", "name": "<img src=x onerror=alert(1)>"}, "<img src=x onerror=alert(1)>"),
        ({"do": "remove-opertor", "name": "parse"}, "did you mean"),
        ({"do": "remove-stream", "name": "orders"}, "parse.input"),
    ):
        page.get_by_label("Edits", exact=True).fill(json.dumps(edit))
        see.click()
        dialog.get_by_role("alert").get_by_text(said).first.wait_for()
        expect(dialog.get_by_role("button", name="Confirm")).to_be_disabled()
        dialog.get_by_role("button", name="Cancel").click()
    choose(page, "rename-operator", Operator="parse")
    see.click()
    page.get_by_role("alert").get_by_text("New name: it is missing.").wait_for()
    assert application.run.plan.version == version


HOSTILE = {"do": "remove-operator", "name": 'it\'s "$HOME" `date` $(date) \\n %s\u2028<b>'}


def test_the_command_that_is_shown_makes_the_same_edits(page, application, open_page, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path))
    register(
        own_entry(
            "numbers-1", "shop", application.server.url, token=application.web.state.write_token, started=0.0
        )
    )
    open_page.expected.append("409")
    dialog = page.get_by_role("dialog")
    edit = {"do": "add-operator", "name": "odd", "spec": {"class": "ridgeline.testing.NullSink"}}
    sink = {"do": "add-sink", "stream": "parsed", "sink": "odd.input"}
    for edits in ([HOSTILE], [edit, sink]):
        page.evaluate("location.hash = '#/changes?edit=json'")
        page.get_by_label("Edits", exact=True).fill(json.dumps(edits))
        page.get_by_role("button", name="See what would change").click()
        command = dialog.locator(".copy code").inner_text()
        shown = shell(command.partition(" | ridgeline ")[0])
        assert json.loads(shown) == edits
        if edits[0] is not HOSTILE:
            dialog.locator(".change-lines").wait_for()
            lines = dialog.locator(".change-lines").inner_text().splitlines()
        dialog.get_by_role("button", name="Cancel").click()
    said = shell(f"{command} --dry-run")
    assert not [line for line in lines if line.strip() not in said]


def test_an_operator_may_have_the_name_of_what_all_objects_have(page, application):
    page.evaluate("location.hash = '#/changes?edit=json'")
    add = {"do": "add-operator", "name": "__proto__", "spec": {"class": "ridgeline.testing.NullSink"}}
    sink = {"do": "add-sink", "stream": "parsed", "sink": "__proto__.input"}
    page.get_by_label("Edits", exact=True).fill(json.dumps([add, sink]))
    page.get_by_role("button", name="See what would change").click()
    dialog = page.get_by_role("dialog")
    confirm(dialog)
    page.get_by_role("link", name="Graph", exact=True).click()
    page.locator('[data-node="__proto__"]').click()
    page.wait_for_url("**operator=__proto__*")
    page.wait_for_function(
        "() => Object.keys(localStorage).some((key) => localStorage[key].includes('__proto__'))"
    )


def shell(command):
    """What a shell prints at a command; `ridgeline` is that of this environment."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {**os.environ, "PATH": path, "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
