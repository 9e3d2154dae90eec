"""Checks, each a package in the folder of its dimension."""
