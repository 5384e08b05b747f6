"""What `penstock run` shows: pure rows and rates, and the two ways to print them."""
