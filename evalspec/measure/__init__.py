"""Clocks, warm-up and measuring loops. They give raw samples only; nothing here decides or knows a framework."""
