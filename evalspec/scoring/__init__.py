"""What the checks of models share: metrics by task, scored rows, slices."""
