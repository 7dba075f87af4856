"""Files to files: payments, features of each user so far, a model, and alerts.

Run it in this folder, where its data is: `ridgeline run fraud.py`. Alerts are in `out/alerts`, all scores in
`out/scores`. `python train.py` makes the model `fraud-1.onnx` of `labelled.csv`. While it runs, another model
takes over by `ridgeline set-operator-property fraud score model fraud-2.onnx`.
It needs `pip install 'ridgeline[frames,models]'`.
"""

from typing import NamedTuple

from ridgeline import Application
from ridgeline.operators import FileOutput, FileReplayInput
from ridgeline.operators import aggregate as agg


class Payment(NamedTuple):
    id: str
    user: str
    cents: int
    hour: int


app = Application("fraud", window="200ms")
payments = app.read("payments", FileReplayInput("payments.csv", format="csv", schema=Payment))
by_user = payments.group_by("user").aggregate(
    "by_user",
    id=agg.last("id"),
    cents=agg.last("cents"),
    hour=agg.last("hour"),
    usual=agg.mean("cents"),
    emit="records",
)
features = by_user.with_columns("features", ratio="cents / usual")
scores = features.predict(
    "score",
    "fraud-1.onnx",
    ["ratio", "hour"],
    "risk",
    method="probabilities",
    pick=1,
    version_column="model",
)
scores.write("scores", FileOutput("out/scores", format="jsonl"))
scores.filter("risky", "risk > 0.5").write("alerts", FileOutput("out/alerts", format="jsonl"))
