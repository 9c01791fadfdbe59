"""The application: composition of all parts, and the process around them."""
