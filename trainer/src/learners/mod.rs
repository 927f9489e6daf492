//! One learner a file, behind one interface.
