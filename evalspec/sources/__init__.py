"""The kinds of dataset, one file each; the only place that reads data. Modules with an underscore are no kinds."""
