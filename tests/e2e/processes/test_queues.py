"""The tests of queues, with two processes."""

from e2e.test_queues import *  # noqa: F403
