"""What is done with records that exist: reports, verification."""
