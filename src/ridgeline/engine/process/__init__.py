"""What a worker process has beside containers: heartbeats, logs, stacks, the plan, the user's modules."""
