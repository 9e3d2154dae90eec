"""The whole spec: file -> Spec, and the JSON Schemas that are made from the same classes."""

from evalspec.loading.spec import Slice, Spec
from evalspec.loading.spec_file import PROFILE_FILE, LoadOptions, load, load_all, load_kept

__all__ = ["PROFILE_FILE", "LoadOptions", "Slice", "Spec", "load", "load_all", "load_kept"]
