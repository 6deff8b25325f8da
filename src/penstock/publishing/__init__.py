"""Topics and their subscriptions in the shards, and how what is published gets to subscribers."""
