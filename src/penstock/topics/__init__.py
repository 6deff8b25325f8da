"""The rules of topics: names and records, envelopes and signatures, delivery policies. No IO, no clocks."""
