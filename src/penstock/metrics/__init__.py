"""Values over time: buckets, series and statistics. Pure: no clock, no IO."""
