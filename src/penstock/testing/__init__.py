"""A broker inside a test: in memory, in milliseconds, with a clock that the test turns."""
