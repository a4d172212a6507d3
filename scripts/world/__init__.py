"""The steps that build the bundled knowledge base `world`: read the sources, name the things, state the facts, split, check, describe."""
