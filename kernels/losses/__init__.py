"""Proximal maps of losses of data, exact by a factor or inexact by an optimiser."""
