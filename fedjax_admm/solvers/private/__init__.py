"""Solvers whose messages carry the noise of a release."""
