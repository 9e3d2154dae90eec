"""A client of served models: connections, loops, wire formats."""
