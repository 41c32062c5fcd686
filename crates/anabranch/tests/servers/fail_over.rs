//! A standby that is promoted while a fleet works.
