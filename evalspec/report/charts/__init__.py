"""Drawings of the report: charts, strips, tables, trends."""
