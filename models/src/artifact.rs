//! The artifact bundle: one self-verifying directory of manifest, weights and probes.
