"""The broker: joins the rules of queues to a store."""
