"""A run in Markdown."""
from __future__ import annotations
from evalspec.evidence.record import Record
def markdown(record: Record) -> str:
    return ""
