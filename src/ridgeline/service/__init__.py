"""What a running application shows to the outside: REST, metrics, heartbeats in, event logs; and how one is started with all of it."""
