"""`solve private`: regression under differential privacy."""
