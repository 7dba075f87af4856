"""What a running application shows to the outside: REST, metrics, heartbeats, event logs; its start."""
