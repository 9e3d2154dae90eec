"""What sets two numbers or two records side by side: comparability, settings, changes of a spec, history."""
