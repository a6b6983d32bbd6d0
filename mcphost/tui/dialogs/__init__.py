"""Modal dialogs that each ask the user one question; closing one without approving refuses the request."""
