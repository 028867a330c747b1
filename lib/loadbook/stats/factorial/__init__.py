"""Several factors at once: contrasts per block, their tests, and what they let us say."""
