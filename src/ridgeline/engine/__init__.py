"""How plans run on Spark: the only package that imports pyspark."""

import warnings


def accept_pandas_3() -> None:
    """Leave out the warning that PySpark 4.3 prints of pandas 3 in each process, whatever it does there.

    Ridgeline gives pandas nothing that PySpark converts. Call it too where Spark is started: in a test runner
    sets the filters of warnings back.
    """
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


accept_pandas_3()
