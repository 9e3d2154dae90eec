"""What a spec is written in: YAML with places, units, requirement sentences, where, the base class of every part."""
