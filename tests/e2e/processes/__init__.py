"""The same tests as for one process, against several processes: clients see no difference."""
