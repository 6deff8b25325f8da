"""The tests of long polls, with two processes."""

from e2e.test_long_polls import *  # noqa: F403
