"""What to look at next: facts or walks in tiles of one relation, noise, and the seeded stream of both."""
