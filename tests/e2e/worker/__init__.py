"""Worker processes against real servers."""
