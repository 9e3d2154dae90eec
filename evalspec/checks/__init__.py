"""What can be checked: a package for each check, in the folder of its dimension."""
