"""What a model file must not do, and what it really is."""
