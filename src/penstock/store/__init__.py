"""Where the broker's data lives: the contract (``port``) and the stores that keep it."""
