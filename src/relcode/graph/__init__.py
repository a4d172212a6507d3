"""What is known: names, facts, datasets, neighbours, known answers and relation paths."""
