"""Work on records that exist: reports, verification."""
