"""Everything that is sent to the API server: connection and auth, writes, events, leader election.

Nothing outside this package and `bayplan.informers` knows that HTTP exists. Calls end in a value or
in an `ApiError` that says whose fault it is.
"""
