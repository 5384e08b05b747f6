"""What takes too long for every change. Name the file: `pytest e2e/rehearsals/release.py`."""
