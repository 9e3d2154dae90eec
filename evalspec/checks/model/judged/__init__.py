"""The check `judged`."""
