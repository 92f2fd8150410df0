"""Runs of the small experiment compile the same programs again and again."""

from tests.cached import programs_are_kept  # noqa: F401
