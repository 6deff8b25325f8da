"""AWS Signature Version 4: parse, canonicalise, verify."""
