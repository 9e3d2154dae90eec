"""The vocabulary: what a run writes down and a verdict and a report are made from. No numpy here."""
