"""Settings: their types, where they come from, and the queues they declare."""
