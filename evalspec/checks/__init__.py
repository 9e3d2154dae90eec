"""What can be checked: one file per check, in the folder of its dimension."""
