"""Frozen values that every layer shares: no I/O, clock, randomness, environment or logging."""
