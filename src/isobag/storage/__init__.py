"""Files: written whole or not at all, and models in them."""
