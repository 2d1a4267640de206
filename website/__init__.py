"""What makes the site out of docs: hooks of the generator, pictures, and pages of executed scripts."""
