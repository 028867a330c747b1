"""One comparison in many runs: where its effect stands, when it changed, and whether the newest run is worse."""
