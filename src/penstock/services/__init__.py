"""One package for each AWS service: its actions, handlers and errors."""
