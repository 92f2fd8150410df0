"""How a figure looks where it is printed or shown: widths, letters, panels, legends, formats."""
