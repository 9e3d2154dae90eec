"""Language of a spec: YAML with places, units, requirement sentences, where, the base class of every part."""
