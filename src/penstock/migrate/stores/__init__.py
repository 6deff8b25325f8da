"""Copies one store of Penstock into another: SQLite to PostgreSQL and back, between numbers of shards."""
