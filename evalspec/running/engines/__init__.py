"""Engines: who looks at the leaves of large datasets, in processes of this machine or on the nodes of a cluster."""
