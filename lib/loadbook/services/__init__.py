"""Floor 4: against what? One folder per server software; one module that runs any of them."""
