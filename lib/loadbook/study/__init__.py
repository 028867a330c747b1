"""The study: what is compared, how it is read from TOML, and its plan."""
