"""From a logical plan to a physical and an execution plan."""
