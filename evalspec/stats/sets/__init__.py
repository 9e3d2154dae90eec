"""Equal and similar rows, texts and pictures among many."""
