"""Tables in, rankings out: ``detect`` judges a table by itself, ``fit`` learns from one to score others."""
