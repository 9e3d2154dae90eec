"""Trainings that a run makes itself: run after run, each in a process group of its own."""
