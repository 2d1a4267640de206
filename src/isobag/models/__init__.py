"""What is learned, as values: frozen, with their arithmetic, without parameters and checks."""
