"""Modal dialogs, each of which asks one question.

Closing a dialog without approving refuses the request.
"""
