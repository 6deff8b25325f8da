"""Generated input for everything that untrusted clients reach: one target for each, and two engines that run them.

See README.md in this folder.
"""
