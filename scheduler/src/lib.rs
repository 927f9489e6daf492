//! The online scheduler: thin shells around the deciding core.
