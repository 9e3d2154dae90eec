"""What the report draws: charts, strips, tables, trends."""
