"""Several worker processes on one machine and one port: the supervisor, and what runs in each worker.

Each worker owns some shards for as long as it runs (shard modulo number of workers). Clients reach any of them; a
request for a shard of another worker is passed on over a Unix socket. The supervisor serves nothing itself: it
opens the port, starts the workers, restarts one that dies or hangs, and stops them together.
"""
