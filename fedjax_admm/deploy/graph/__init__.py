"""Deployed graphs: nodes, and the relay between them."""
