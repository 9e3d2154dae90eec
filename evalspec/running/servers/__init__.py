"""Servers while a run lasts: started, kept the same, asked by several clients."""
