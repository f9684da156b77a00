"""The driver of the management cluster."""
