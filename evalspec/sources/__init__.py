"""The kinds of dataset, one file each; the only place that reads data. `reading` is what they share."""
