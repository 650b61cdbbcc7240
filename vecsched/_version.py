"""The version, in a module of its own so that nothing else is imported to know it."""

__version__ = "0.1.0"
