"""One reader of users' CSV files; observations, node graphs, digits."""
