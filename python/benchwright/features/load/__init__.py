"""Loads: operations at their intended times, by the engine, against servers, files and devices."""
