"""The kinds of model, one file each. The packages beside them are what they share, and no kinds."""
