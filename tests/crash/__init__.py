"""A real server that is killed again and again under load: what it acknowledged holds."""
