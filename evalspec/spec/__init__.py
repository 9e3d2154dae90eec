"""The whole spec: file -> Spec, and the JSON Schemas that are made from the same classes."""

from evalspec.spec.loading import PROFILE_FILE, Options, load, load_all, load_kept
from evalspec.spec.model import Slice, Spec

__all__ = ["PROFILE_FILE", "Options", "Slice", "Spec", "load", "load_all", "load_kept"]
