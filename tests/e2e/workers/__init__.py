"""The same tests as for one process, against several workers: clients see no difference."""
