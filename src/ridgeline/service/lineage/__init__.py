"""OpenLineage: the runs of an application, and the datasets that they read and write."""
