"""The widget of a notebook: the page's own module, fed over the widget's line from the kernel."""

from __future__ import annotations

import threading
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.measure.events import ApplicationEnded, RunEvent, WindowCommitted

if TYPE_CHECKING:
    from ridgeline.service.notebook.figures import CellFigures, Shown

EVERY_SECONDS = 0.5
"""Between two differences, at least."""
IDLE_SECONDS = 1.0
"""Without a new window, figures that move by themselves are sent this often."""
_SHARE = 0.05
"""Of one core, how much following may take."""
_BYTES_A_SECOND = 200_000
"""Jupyter's server drops messages of a kernel that sends more than a million."""


def is_installed() -> bool:
    """True if widgets can be made."""
    return find_spec("anywidget") is not None


def is_open(widget: Any) -> bool:
    """True if the widget has its line to the notebook: it was not closed, nor has its cell been run again."""
    return widget.comm is not None and not getattr(widget.comm, "_closed", False)


def new_widget(shown: Shown) -> Any:
    """A widget that shows something. Raises RidgelineError without the library."""
    if not is_installed():
        raise RidgelineError(
            "a live widget needs `anywidget`; install it: `pip install 'ridgeline[notebook]'`"
        )
    return _widget_class()(shown)


@cache
def _widget_class() -> type:
    """The class of widgets, once the library is wanted."""
    import anywidget
    import traitlets

    from ridgeline.service.notebook.module import widget_module

    class RidgelineWidget(anywidget.AnyWidget):
        """An application in a cell.

        `whole` is made whenever it is sent: to a notebook that opens, or that asks for it. Changes since
        then come as messages, so that nothing old is kept.
        """

        _esm = widget_module()
        whole = traitlets.Unicode().tag(sync=True)
        feed_id = traitlets.Unicode().tag(sync=True)

        def __init__(self, shown: Shown) -> None:
            self._shown = shown
            super().__init__(feed_id=uuid4().hex)
            self.on_msg(self._asked)

        def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002  the library's
            """The state that a notebook gets."""
            state: dict[str, Any] = super().get_state(key, drop_defaults)
            if key is None or "whole" in state:
                state["whole"] = self._shown.whole()
            return state

        def close(self) -> None:
            """Close it for good, and its layout, which the library would keep."""
            layout = self.layout
            super().close()
            if layout is not None:
                layout.close()

        def _asked(self, _: Any, message: Any, __: Any) -> None:
            if isinstance(message, dict) and message.get("ask") == "whole":
                self.send_state("whole")

    return RidgelineWidget


class Follower:
    """Sends what changes of an application to its widgets, from one thread while there is one that is open.

    It ends with the run, and with the last widget that is open.
    """

    def __init__(self, figures: CellFigures) -> None:
        self._figures = figures
        self._lock = threading.Lock()
        self._widgets: list[Any] = []
        self._news = threading.Event()
        self._clock = SystemClock()

    def new(self) -> Any:
        """A new widget, which moves until the run has ended. Raises RidgelineError without the library."""
        widget = new_widget(self._figures)
        with self._lock:
            self._widgets.append(widget)
            if not self._figures.is_followed and not self._figures.over:
                self._figures.is_followed = True
                threading.Thread(target=self._follow, name="ridgeline-widget", daemon=True).start()
        return widget

    def newest(self) -> Any:
        """The widget that was made last, or a new one if that is closed."""
        with self._lock:
            found = next((one for one in reversed(self._widgets) if is_open(one)), None)
        return self.new() if found is None else found

    def _follow(self) -> None:
        """Send differences, at most twice a second, until no widget is open or the run has ended."""
        unsubscribe = self._figures.watch.subscribe(self._observe)
        try:
            while widgets := self._open():
                self._news.clear()  # before the reading: what happens during it counts as news
                begun = self._clock.cpu()
                text = self._figures.difference()
                for widget in widgets:
                    widget.send({"delta": text})
                if self._figures.over:
                    self._end()
                    return
                rest = max((self._clock.cpu() - begun) / _SHARE, len(text) * len(widgets) / _BYTES_A_SECOND)
                self._clock.wait(max(EVERY_SECONDS, rest))
                self._clock.wait(IDLE_SECONDS - EVERY_SECONDS, self._news)
        except BaseException:
            with self._lock:
                self._figures.is_followed = False
            raise
        finally:
            unsubscribe()

    def _open(self) -> list[Any]:
        """The widgets to send to. With the last of them the following ends."""
        with self._lock:
            found = [widget for widget in self._widgets if is_open(widget)]
            closed = [widget for widget in self._widgets if widget not in found]
            self._widgets = found
            if not found:
                self._figures.is_followed = False
        for widget in closed:
            widget.close()  # the library keeps it otherwise
        return found

    def _end(self) -> None:
        """Give the end to all as a whole, which notebooks store."""
        with self._lock:
            self._figures.is_followed = False
            found = list(self._widgets)
        for widget in found:
            widget.send_state("whole")

    def _observe(self, event: RunEvent) -> None:
        """In the application's thread: it waits for nothing."""
        if isinstance(event, WindowCommitted | ApplicationEnded):
            self._news.set()
