"""The whole server: a process, a socket, and the SDKs of AWS."""
