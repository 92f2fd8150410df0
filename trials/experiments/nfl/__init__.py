"""Experiments on networked federated learning, by where their data come from."""
