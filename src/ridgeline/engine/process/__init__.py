"""A worker process beside its containers: heartbeats, logs, stacks, the plan, the user's modules."""
