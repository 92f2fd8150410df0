"""Localisation of a target by its distances to sensors."""
