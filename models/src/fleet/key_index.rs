//! A map from 128-bit keys that are already hashes. Nothing ever iterates it, so that its order
//! can't reach a decision.

#![allow(clippy::disallowed_types, reason = "never iterated; the hasher below is fixed")]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Passes the low 64 bits of the key through: the key is a hash already.
#[derive(Default, Clone)]
struct PassThrough(u64);

impl Hasher for PassThrough {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

/// A map from 128-bit hash keys to small values.
#[derive(Clone)]
pub struct KeyIndex<V>(HashMap<u128, V, BuildHasherDefault<PassThrough>>);

impl<V> Default for KeyIndex<V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<V> KeyIndex<V> {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: u128) -> Option<&V> {
        self.0.get(&key)
    }

    /// The value of `key`, made by `default` when absent.
    pub fn entry_or(&mut self, key: u128, default: V) -> &mut V {
        self.0.entry(key).or_insert(default)
    }

    /// Set the value of `key`.
    pub fn insert(&mut self, key: u128, value: V) {
        self.0.insert(key, value);
    }

    /// Forget `key`; returns its value.
    pub fn remove(&mut self, key: u128) -> Option<V> {
        self.0.remove(&key)
    }
}
