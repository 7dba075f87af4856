"""A widget of `anywidget` that moves while the application runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any
from weakref import ref

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError

_SECOND = 1.0
_MODULE = """
export default {
  render({ model, el }) {
    const draw = () => { el.innerHTML = model.get("html"); };
    model.on("change:html", draw);
    draw();
    return () => model.off("change:html", draw);
  },
};
"""


def is_installed() -> bool:
    """True if widgets can be made."""
    return find_spec("anywidget") is not None


def live_widget(html: Callable[[], str], runs: Callable[[], bool]) -> Any:
    """A widget that shows `html()`, again every second as long as `runs()`, and once after that.

    It is kept by who shows it: a widget that is closed or forgotten ends its thread. Raises RidgelineError
    without the library.
    """
    if not is_installed():
        msg = "a live widget needs `anywidget`; install it: `pip install 'ridgeline[notebook]'`"
        raise RidgelineError(msg)
    import anywidget
    import traitlets

    class RidgelineWidget(anywidget.AnyWidget):
        """HTML that is replaced as a whole."""

        _esm = _MODULE
        html = traitlets.Unicode("").tag(sync=True)

    widget = RidgelineWidget(html=html())
    thread = threading.Thread(
        target=_follow, args=(ref(widget), html, runs), name="ridgeline-widget", daemon=True
    )
    thread.start()
    return widget


def _follow(widget: Callable[[], Any], html: Callable[[], str], runs: Callable[[], bool]) -> None:
    """Show the newest figures every second, until the run has ended or the widget is gone."""
    clock = SystemClock()
    again = True
    while again:
        clock.wait(_SECOND)
        again = runs()
        found = widget()
        if found is None or found.comm is None:
            return
        found.html = html()
        del found
