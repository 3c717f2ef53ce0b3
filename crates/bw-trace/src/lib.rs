//! Reads, writes, measures, compares and captures I/O traces.
