"""What Byzantine senders say in the place of their messages."""
