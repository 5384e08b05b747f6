"""Rules of one part of a manifest each, beyond those of the models."""
