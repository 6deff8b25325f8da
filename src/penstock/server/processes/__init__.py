"""Several server processes on one machine and one port: the supervisor, and what runs in each of them.

Each process owns some shards for as long as it runs (shard modulo number of processes). Clients reach any of them; a
request for a shard of another process is passed on over a Unix socket. The supervisor serves nothing itself: it
opens the port, starts the processes, restarts one that dies or hangs, and stops them together.
"""
