"""The check `calibration`."""
