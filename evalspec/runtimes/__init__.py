"""The kinds of model, one file each, and the pipeline around them. Files with an underscore are no kinds."""
