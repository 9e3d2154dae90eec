"""The check `training_recovery`."""
