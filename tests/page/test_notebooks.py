"""A handle in cells of real notebooks: the page's own module, fed by the kernel, in marimo and JupyterLab."""

import pytest

from support.page.notebooks import CELLS, KERNEL, has_jupyterlab, jupyterlab, marimo
from support.programs import lacks

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ACCENT = "rgb(184, 60, 10)"
"""Of the critical path, in light."""
START_MS = 180_000
"""Spark starts first."""


def box(cell, node):
    return cell.locator(f'[data-node="{node}"]').bounding_box()


def words(cell, kind):
    return cell.locator(kind).inner_text()


def check_plan(cell):
    """The plan of an application that does not run: operators, drawn by the page's code, without figures."""
    cell.locator('[data-node="slow"] .graph-box').wait_for()
    assert cell.locator("[data-node]").count() == 3
    assert cell.locator(".sentence, .state, .graph-strip").count() == 0
    assert cell.locator("path.graph-edge").count() == 2


def check_running(page, cell):
    """The sentence, the critical path in its colour, a chosen operator; figures move, places do not."""
    cell.locator(".graph-step").first.wait_for(timeout=START_MS)
    assert "slow" in words(cell, ".sentence")
    slow = cell.locator('[data-node="slow"]')
    page.wait_for_function("one => one.classList.contains('graph-on-path')", arg=slow.element_handle())
    assert slow.locator(".graph-box").evaluate("one => getComputedStyle(one).stroke") == ACCENT
    assert words(cell, ".frame-connection").startswith("live")
    slow.click()
    verdict = cell.locator(".operator-verdict")
    verdict.wait_for()
    assert "It computes" in verdict.inner_text()
    latency = cell.locator(".operator-latency")
    places = [box(cell, node) for node in ("source", "slow", "sink")]
    first = int(latency.inner_text().split()[-1])
    page.wait_for_function(
        "([one, first]) => Number(one.innerText.split(' ').at(-1)) > first + 5",
        arg=[latency.element_handle(), first],
    )
    assert [box(cell, node) for node in ("source", "slow", "sink")] == places


def check_zoom(page, cell):
    """The wheel scrolls the notebook, and zooms with Control."""
    width = lambda: box(cell, "slow")["width"]  # noqa: E731
    before = width()
    cell.locator(".graph-canvas").hover()
    page.mouse.wheel(0, 400)
    page.wait_for_timeout(100)
    assert width() == before
    cell.locator(".graph-canvas").hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, 300)
    page.keyboard.up("Control")
    page.wait_for_function(
        "([one, before]) => one.getBoundingClientRect().width < before",
        arg=[cell.locator('[data-node="slow"]').element_handle(), before],
    )


def check_ended(cell, folder):
    (folder / "end").touch()
    cell.locator(".frame-ended").wait_for()
    assert "finished after" in words(cell, ".sentence")


def test_marimo(open_page, tmp_path):
    open_page.expected += [r"was preloaded using link preload"]  # marimo's own
    with marimo(tmp_path) as address:
        page = open_page(address)
        cells = page.locator(".ridgeline-cell")
        cells.nth(1).wait_for(timeout=START_MS)
        check_plan(cells.nth(0))
        live = cells.nth(1)
        check_running(page, live)
        check_zoom(page, live)
        check_ended(live, tmp_path)
        page.close()


def test_jupyterlab(open_page, tmp_path, screenshot):
    if not has_jupyterlab():
        lacks("there is no JupyterLab: `make services` installs it")
    from nbformat.v4 import new_code_cell, new_notebook

    notebook = new_notebook(cells=[new_code_cell(text) for text in CELLS], metadata={"kernelspec": KERNEL})
    with jupyterlab(tmp_path, notebook) as address:
        page = open_page(address)
        page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.context?.sessionContext.isReady"
        )
        page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        cells = page.locator(".ridgeline-cell")
        cells.nth(1).wait_for(timeout=START_MS)
        check_plan(cells.nth(0))
        live = cells.nth(1)
        check_running(page, live)
        page.get_by_role("button", name="No", exact=True).click()  # to Jupyter's news
        screenshot(live, "notebook-cell")
        check_zoom(page, live)
        check_ended(live, tmp_path)
        page.close()
