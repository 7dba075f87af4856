"""`ridgeline doctor`: whether this machine, a cluster and a checkpoint's store are fit for a run."""
