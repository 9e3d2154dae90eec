"""The journal of a run: written, closed, read back, gone on from."""
