"""Floor 2: where? Hosts over SSH or from a record, the lab, facts and monitors."""
