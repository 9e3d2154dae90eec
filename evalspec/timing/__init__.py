"""What the checks of systems share: samples, budgets, surroundings, drift, invalidation."""
