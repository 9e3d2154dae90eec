"""Bootstrap and jackknife, without loops over resamples."""
