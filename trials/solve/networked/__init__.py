"""`solve networked`: a model per node of a network."""
