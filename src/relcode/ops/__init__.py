"""Fast operations, one a file: the equation, a plain version that is the truth, fast versions, and a chooser. Torch only."""
