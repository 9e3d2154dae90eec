"""Guards around model files: forbidden content, and what a file really is."""
