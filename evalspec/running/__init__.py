"""Plan -> Record: processes, limits, journal, environment."""
