"""The door: what comes in, checked, as rows and groups of rows."""
