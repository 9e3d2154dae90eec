"""What is inside a torch archive, and what torch does with it."""
