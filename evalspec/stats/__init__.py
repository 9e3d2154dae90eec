"""Estimators: arrays and a Generator in, estimates out; pure functions, each with its reference.

An estimate has a value, one-sided bounds and p-values that invert them (`evalspec.evidence.estimate.Estimate`). Where a
sample can't carry a bound its bounds and p-values are None, and ``method`` says from which n on there is one.
``n_to_decide`` gives the n for 80 % power whatever it is; above 20 times the present n the verdict words it as *close
to the threshold*, and still says how much it is.
"""
