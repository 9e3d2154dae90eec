"""The whole spec: file -> Spec, and the JSON Schemas that are made from the same classes."""

from evalspec.spec.loading import Options, load, load_all
from evalspec.spec.model import Slice, Spec

__all__ = ["Options", "Slice", "Spec", "load", "load_all"]
