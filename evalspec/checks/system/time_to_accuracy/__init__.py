"""The check `time_to_accuracy`."""
