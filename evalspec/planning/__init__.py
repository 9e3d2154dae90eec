"""Spec -> Plan: what will be measured, in which order, for which family of requirements, and what it can show."""

from __future__ import annotations

from evalspec.planning.plan import Plan, PlannedCheck, plan

__all__ = ["Plan", "PlannedCheck", "plan"]
