"""The files of the web console. It needs no build: browsers load them as they are."""
