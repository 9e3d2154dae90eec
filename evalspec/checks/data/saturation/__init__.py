"""The check `saturation`."""
