"""The check `generalization`."""
