"""Reading that the kinds of training log share."""
