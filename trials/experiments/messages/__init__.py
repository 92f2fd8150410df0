"""Messages on their way: compressed, from liars, delayed."""
