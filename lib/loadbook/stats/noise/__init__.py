"""The noise of a laboratory: how trials of one configuration scatter, and what that means for studies."""
