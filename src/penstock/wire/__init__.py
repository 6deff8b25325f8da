"""Bytes to structs and back: the protocols that AWS services share, without sockets."""
