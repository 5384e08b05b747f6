"""Pure builders of the objects of a stream, and their comparison with the observed ones."""
