"""The runtime: owns the queues, joins the rules to the store, wakes whoever waits."""
