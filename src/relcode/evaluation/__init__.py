"""How good it is: filtered ranks of facts in both directions, metrics (functions of ranks only), the report, and a baseline to compare with."""
