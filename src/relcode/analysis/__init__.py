"""What it means: codes, names, compositions and maps of the relations of a trained model."""
