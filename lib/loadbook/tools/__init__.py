"""Floor 4: what loads? One file per load generator; adding one file adds a tool."""
