"""HTTP/1.1 straight from the socket."""
