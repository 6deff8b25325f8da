"""The whole server as its users meet it: a process, a socket, and the SDKs of Amazon."""
