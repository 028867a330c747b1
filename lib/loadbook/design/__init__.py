"""Floor 1: what is asked? The study's spec, its treatments, its plan."""
