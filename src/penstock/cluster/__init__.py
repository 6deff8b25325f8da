"""Several processes: who owns which shard, and passing requests on to the owner."""
