"""One face for each AWS service: its operations in its own words."""
