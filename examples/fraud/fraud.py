"""Files to files: payments, features of each user so far, a model, and alerts.

Run it in this folder, where its data is: `ridgeline run fraud.py`. Alerts are in `out/alerts`, all scores in
`out/scores`. `python train.py` makes the model `fraud-1.onnx` of `labelled.csv`. While it runs, another model
takes over by `ridgeline set-operator-property fraud score model fraud-2.onnx`.
The steps are in `risk.py`; `live.py` has the same between Kafka and PostgreSQL.
It needs `pip install 'ridgeline[frames,models]'`.
"""

from risk import Payment, risks, risky

from ridgeline import Application
from ridgeline.operators import FileOutput, FileReplayInput

app = Application("fraud", window="200ms")
scores = risks(app.read("payments", FileReplayInput("payments.csv", format="csv", schema=Payment)))
scores.write("scores", FileOutput("out/scores", format="jsonl"))
risky(scores).write("alerts", FileOutput("out/alerts", format="jsonl"))
