"""Compare: two configurations on the same cluster file, or on the same recording.

`dump` compares decisions Pod by Pod, `recorded` those of a recorded scheduler with ours; `sections`
says what is shown of them, or of two replays, and `page` makes one HTML file of that.
"""
