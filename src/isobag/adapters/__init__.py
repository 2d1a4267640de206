"""isobag's detectors behind the interfaces of other libraries, a file each; none is imported unless it is asked for."""
