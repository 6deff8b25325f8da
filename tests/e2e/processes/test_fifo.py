"""The tests of FIFO queues, with two processes."""

from e2e.test_fifo import *  # noqa: F403
