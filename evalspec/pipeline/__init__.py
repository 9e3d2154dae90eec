"""Pipeline from rows to a model's answers: columns, preprocessing, the model, and what its bytes are."""
