"""Train the model of `fraud.py` by labelled payments, and write it as ONNX: `python train.py`.

It needs scikit-learn and skl2onnx.
"""

import csv
from collections import defaultdict
from pathlib import Path

from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def main() -> None:
    seen: dict[str, list[int]] = defaultdict(list)
    features, labels = [], []
    with Path("labelled.csv").open() as file:
        for row in csv.DictReader(file):
            own = seen[row["user"]]
            own.append(int(row["cents"]))
            features.append([own[-1] / (sum(own) / len(own)), int(row["hour"])])
            labels.append(row["fraud"] == "true")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(features, labels)
    kinds = [("features", FloatTensorType([None, 2]))]
    written = convert_sklearn(model, initial_types=kinds, options={"zipmap": False})
    Path("fraud-1.onnx").write_bytes(written.SerializeToString())
    print(f"{len(labels)} payments, {model.score(features, labels):.3f} of them right")


if __name__ == "__main__":
    main()
