"""Processes of a run: what each of them is handed, does and answers."""
