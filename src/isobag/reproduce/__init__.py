"""The paper again: every table and figure, beside the published numbers. ``isobag reproduce`` runs it."""
