"""Drivers against the simulated site, over HTTP."""
