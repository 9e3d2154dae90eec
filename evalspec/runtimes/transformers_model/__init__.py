"""Insides of a folder that transformers reads, and likelihoods of texts by what is in it."""
