"""How belief changes: the state of training, one step, and going n steps further. Knows nothing of evaluation or files."""
