"""Delays of messages."""
