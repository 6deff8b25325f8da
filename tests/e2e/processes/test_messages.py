"""The tests of messages, with two processes."""

from e2e.test_messages import *  # noqa: F403
