"""The definitions, written a second time: slow, obvious, and without a line of the library."""
