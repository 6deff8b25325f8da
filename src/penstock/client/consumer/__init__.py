"""Handlers of messages: received in advance, kept hidden while they are worked on, retried, given back at a stop.

The rules take times as arguments and do no IO: when claims are extended (:mod:`.claims`), which message is next
(:mod:`.schedule`), what follows a failure (:mod:`.retry`).
"""
