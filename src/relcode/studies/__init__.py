"""Long experiments made of the stages before: each writes records, and its page is rendered from them."""
