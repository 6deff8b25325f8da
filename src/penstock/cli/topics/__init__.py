"""Commands about topics and their subscriptions."""
