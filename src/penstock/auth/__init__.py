"""Authentication, authorization and encryption keys."""
