"""Tests of the admin API against real servers."""
