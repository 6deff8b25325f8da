"""Commands about the server itself: start, check, watch, back up, move it."""
