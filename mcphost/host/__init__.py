"""The product's judgement: connections, consent, turns; tells by events, asks by questions, never draws."""
