"""The tests of a secured server, with two processes."""

from e2e.test_secured import *  # noqa: F403
