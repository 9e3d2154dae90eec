"""Statistics of training runs: time to a target, hazards of two recipes, scaling."""
