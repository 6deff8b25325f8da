"""HTTP/1.1 for clients: one exchange at a time on each connection, on asyncio or on blocking sockets."""
