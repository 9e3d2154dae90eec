"""Two checks, one kind of model and one kind of dataset for evalspec."""
