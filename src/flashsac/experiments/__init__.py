"""Curves and comparisons of finished runs."""
