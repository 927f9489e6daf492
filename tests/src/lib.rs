//! End-to-end tests over the whole workspace; see `tests/`.
