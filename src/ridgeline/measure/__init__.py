"""Measurement: typed events, and the metrics as pure folds over them.

No Spark, no files, no sockets, no clock.
"""
