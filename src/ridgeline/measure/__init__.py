"""What is measured and how: typed events, and the figures as pure folds over them.

No Spark, no files, no sockets, no clock.
"""
