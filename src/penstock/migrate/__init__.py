"""Converts the configuration files of other servers.

What is carried over means the same here; what is not carried over is named in a comment, with the reason; and the
server accepts the result as it is.
"""
