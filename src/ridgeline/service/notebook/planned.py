"""An application that does not run, in a notebook: its plan, drawn as that of one that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ridgeline.api.application import Application
from ridgeline.api.errors import RidgelineError
from ridgeline.plan.validation import validate
from ridgeline.service.notebook import widget
from ridgeline.service.notebook.shown import HtmlView

if TYPE_CHECKING:
    from ridgeline.service.notebook.figures import FixedFigures

_SHOWN: WeakKeyDictionary[Application, tuple[str, Any]] = WeakKeyDictionary()
"""The text and the widget shown last of each application: a cell that is run again makes no other."""


def plan_bundle(app: Application) -> dict[str, Any]:
    """The view of a cell by MIME type; empty without the library, and for an application with faults."""
    found = plan_widget(app)
    if found is None:
        return {}
    shown = found._repr_mimebundle_()
    return dict(shown[0] if isinstance(shown, tuple) else shown)


def plan_view(app: Application) -> Any:
    """The view of a cell in marimo, which ends a widget with its cell: each has its own. Else the table."""
    figures = _figures(app) if widget.is_installed() else None
    if figures is None:
        return HtmlView(app._repr_html_())
    return widget.new_widget(figures)


def plan_widget(app: Application) -> Any:
    """The widget of a plan; None without the library, and for an application with faults: it is half made."""
    figures = _figures(app) if widget.is_installed() else None
    if figures is None:
        return None
    text, found = _SHOWN.get(app, ("", None))
    if text != figures.whole() or not widget.is_open(found):
        found = widget.new_widget(figures)
        _SHOWN[app] = figures.whole(), found
    return found


def _figures(app: Application) -> FixedFigures | None:
    """The plan as a widget takes it; None for an application with faults."""
    from ridgeline.service.http import apex
    from ridgeline.service.notebook.figures import FixedFigures
    from ridgeline.service.page.state import shown_plan

    try:
        logical = validate(app)
    except RidgelineError:
        return None
    plan = shown_plan(str(app.name), apex.logical_plan(logical), [], [])
    return FixedFigures({"name": str(app.name), "plan": plan, "overview": None, "sentence": None})
