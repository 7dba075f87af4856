"""The ids of traces of windows, their numbers, and the ones that histograms show."""
