"""Reading tables: files, types, rows, pictures, text."""
