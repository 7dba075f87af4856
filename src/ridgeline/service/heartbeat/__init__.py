"""The port that takes heartbeats from workers."""
