"""What an application has promised: latency, progress, errors; kept or broken since when."""
