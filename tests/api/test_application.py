import pytest

from ridgeline import Application, InputPort, Operator, OutputPort


class Pass(Operator):
    data = InputPort(object)
    out = OutputPort(object)


@pytest.mark.guide("002", "Application API")
def test_an_application_keeps_what_it_is_reported_and_checks_nothing():
    app = Application("app", window="1s", windows_kept=3)
    first = app.add_operator("first", Pass(), partitions=2)
    same = app.add_operator("first", first, nonsense=True)
    app.add_stream("s", first.out, same.data, locality="NODE_LOCAL")
    app.add_stream("nothing", None)
    assert same is first
    assert (app.name, app.window, app.attributes) == ("app", "1s", {"windows_kept": 3})
    assert [(added.name, added.attributes) for added in app.operators] == [
        ("first", {"partitions": 2}),
        ("first", {"nonsense": True}),
    ]
    assert app.streams[0].source is first.out
    assert app.streams[0].sinks == (first.data,)
    assert (app.streams[0].locality, app.streams[1].sinks) == ("NODE_LOCAL", ())


@pytest.mark.guide("004", "API")
def test_the_public_names_are_those_of_the_api():
    import ridgeline
    import ridgeline.api

    assert ridgeline.__all__ == ["Outputs", "Stream", *ridgeline.api.__all__]
    assert all(hasattr(ridgeline, name) for name in ridgeline.__all__)
