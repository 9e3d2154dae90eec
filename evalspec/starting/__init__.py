"""First gates: what ``init`` sees of a model and its rows and writes, and what ``validate --load`` tries."""
