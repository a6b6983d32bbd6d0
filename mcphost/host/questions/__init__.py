"""Questions to the user: their types, forms, and the frontends that answer them."""
