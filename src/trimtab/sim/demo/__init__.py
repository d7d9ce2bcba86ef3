"""The scenarios of `trimtab demo`, and what is shown of them."""
