"""Which requirements of a spec can go red: a defect for each, planted in the evidence of a run."""
