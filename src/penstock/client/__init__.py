"""A client of SQS and of the admin API, for Penstock and for Amazon SQS."""
