"""The paper again: its rivals, its tables and its figures. ``python -m paper points`` runs one, ``make paper`` all."""
