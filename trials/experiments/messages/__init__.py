"""Messages on their way: compressed, from Byzantine senders, delayed."""
