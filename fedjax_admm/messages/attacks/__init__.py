"""Attacks of Byzantine senders."""
