"""The tests of permissions, with two processes."""

from e2e.test_permissions import *  # noqa: F403
