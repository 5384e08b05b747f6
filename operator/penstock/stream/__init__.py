"""What a ContinuousStream is: pure data and rules. Imports no other part of Penstock."""
