"""When messages are heard, if ever."""
