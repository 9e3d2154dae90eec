"""Insides of a torch archive, and what torch does with it."""
