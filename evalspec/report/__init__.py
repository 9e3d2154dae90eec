"""A record and its verdict, for people and for machines: an HTML page, a Markdown summary, JUnit."""

from __future__ import annotations

from evalspec.report.attestation import attestation
from evalspec.report.junit import junit
from evalspec.report.markdown import markdown
from evalspec.report.model_card import model_card
from evalspec.report.monitoring import monitoring
from evalspec.report.page import render

__all__ = ["attestation", "junit", "markdown", "model_card", "monitoring", "render"]
