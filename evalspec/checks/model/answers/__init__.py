"""The check `answers`."""
