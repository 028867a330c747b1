"""One folder per question with a notebook."""
